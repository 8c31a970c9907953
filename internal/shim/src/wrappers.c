/*
 * What the library exports: a wrapper for each row of calls.tab.
 */
#include "wrappers.gen.inc"
