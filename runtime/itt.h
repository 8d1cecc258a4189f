/* SPDX-License-Identifier: MIT */
/* itt: ranges for Intel's profilers (VTune, Advisor), which name their collector by INTEL_LIBITTNOTIFY64; nothing without it. */
#ifndef TJ_RUNTIME_ITT_H
#define TJ_RUNTIME_ITT_H

/* Ranges nest, in each thread. */
void rt_itt_begin(const char *name);
void rt_itt_end(void);

#endif
