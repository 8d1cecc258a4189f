# SPDX-License-Identifier: MIT
# What `make install` installs beside the library and its headers; the list of what compiled programs rely on; Debian packages.

# ---- manual pages: install/man; without scdoc there are none ----
mandir     ?= $(PREFIX)/share/man
PAGES      := $(if $(shell command -v scdoc),tjit.7 tj.h.3 $(if $(TJ),tj.1))
MAN        := $(PAGES:%=$(BUILD)/man/%)
MANDIR_OF   = $(DESTDIR)$(mandir)/man$(subst .,,$(suffix $1))
$(BUILD)/man/%: install/man/%.scd install/man/fill.awk install/man/tidy.awk docs/GUIDE.md include/tj.h
	@mkdir -p $(@D)
	awk -v version=$(VERSION) -v help=$(BUILD)/man/tj.help -f install/man/fill.awk docs/GUIDE.md $< >$@.scd && scdoc <$@.scd >$@.raw && \
		awk -f install/man/tidy.awk $@.raw >$@ && rm $@.scd $@.raw
man: $(MAN)  ## build the manual pages
	@$(if $(PAGES),:,echo 'scdoc is not installed: there are no manual pages')
install-man: man
	$(foreach p,$(PAGES),$(INSTALL) -D -m 644 $(BUILD)/man/$p $(call MANDIR_OF,$p)/$p &&) :
all: $(MAN)
install: install-man
INSTALLED  += $(foreach p,$(PAGES),$(call MANDIR_OF,$p)/$p)
.PHONY: man install-man

# The manual page and the completions of the command tj are made of its help, if there is the command.
bashdir    ?= $(PREFIX)/share/bash-completion/completions
zshdir     ?= $(PREFIX)/share/zsh/site-functions
$(BUILD)/man/tj.help: $(TJ) install/help.sh
	@mkdir -p $(@D)
	install/help.sh $(TJ) >$@
$(BUILD)/man/tj.1: $(BUILD)/man/tj.help
$(BUILD)/completions/tj $(BUILD)/completions/_tj: $(BUILD)/man/tj.help install/completions/tj.awk
	@mkdir -p $(@D)
	awk -v shell=$(if $(filter _%,$(@F)),zsh,bash) -f install/completions/tj.awk $< >$@
install-completions: $(if $(TJ),$(BUILD)/completions/tj $(BUILD)/completions/_tj)
	$(INSTALL) -D -m 644 $(BUILD)/completions/tj $(DESTDIR)$(bashdir)/tj
	$(INSTALL) -D -m 644 $(BUILD)/completions/_tj $(DESTDIR)$(zshdir)/_tj
install: $(if $(TJ),install-completions)
INSTALLED  += $(if $(TJ),$(DESTDIR)$(bashdir)/tj $(DESTDIR)$(zshdir)/_tj)
.PHONY: install-completions

abi:  ## write install/abi.txt, the list of what compiled programs rely on
	install/abi.sh -w
	install/abi.sh -k -w
.PHONY: abi

# ---- Debian packages: install/debian ----
deb:  ## build Debian packages in build/deb (needs debhelper)
	install/deb.sh $(BUILD)/deb
test-deb:  ## build Debian packages and install them in a root of their own (root; debhelper, lintian)
	test/deb.sh $(BUILD)
.PHONY: deb test-deb
