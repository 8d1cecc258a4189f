# SPDX-License-Identifier: MIT
# Moves or leaves out the paragraph macros of scdoc that mandoc warns of: behind a heading, and before another macro.
/^\.P$/ { open = 1; next }
/^\.RE$/ { print; last = $0; next } # the paragraph begins behind it
open && !/^\.(SH|SS|RS)( |$)/ && last !~ /^\.S[HS]/ { print ".P" }
{ open = 0; print; last = $0 }
