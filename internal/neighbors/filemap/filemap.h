#pragma once

#include <stddef.h>

// ps_filemap_install handles SIGBUS from now on. It returns an errno, or 0.
int ps_filemap_install(void);

// ps_filemap_watch watches a mapping, and returns its number; -1: there is no place for another one.
int ps_filemap_watch(void *from, size_t size);

// ps_filemap_cut reports whether a part of a mapping could not be read.
int ps_filemap_cut(int slot);

// ps_filemap_forget ends the watch of a mapping, before it is unmapped.
void ps_filemap_forget(int slot);
