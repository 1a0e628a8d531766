/*
 * The part of libunwind that Rust's std needs, for a program that never unwinds (panic=abort).
 *
 * GCC's libgcc_eh would abort the process when an error captures a backtrace (RUST_BACKTRACE=1). It needs unwind tables,
 * and a binary linked with force-unwind-tables=no has none. This stub returns "end of stack" immediately.
 */
struct context;

int _Unwind_Backtrace(void *callback, void *argument)
{
	(void)callback, (void)argument;
	return 5; /* _URC_END_OF_STACK */
}

/* std calls these only for frames, and there are none. */
unsigned long _Unwind_GetIP(struct context *frame) { return (void)frame, 0; }
unsigned long _Unwind_GetIPInfo(struct context *frame, int *before) { return (void)frame, *before = 0, 0; }
unsigned long _Unwind_GetCFA(struct context *frame) { return (void)frame, 0; }
void *_Unwind_FindEnclosingFunction(void *pc) { return (void)pc, (void *)0; }

/* Called only during unwinding. Rust's prebuilt std refers to them; a rebuilt std does not. */
unsigned long _Unwind_GetLanguageSpecificData(struct context *frame) { (void)frame, __builtin_trap(); }
unsigned long _Unwind_GetRegionStart(struct context *frame) { (void)frame, __builtin_trap(); }
unsigned long _Unwind_GetTextRelBase(struct context *frame) { (void)frame, __builtin_trap(); }
unsigned long _Unwind_GetDataRelBase(struct context *frame) { (void)frame, __builtin_trap(); }
void _Unwind_SetGR(struct context *frame, int number, unsigned long value) { (void)frame, (void)number, (void)value, __builtin_trap(); }
void _Unwind_SetIP(struct context *frame, unsigned long value) { (void)frame, (void)value, __builtin_trap(); }
int _Unwind_RaiseException(void *exception) { (void)exception, __builtin_trap(); }
void _Unwind_DeleteException(void *exception) { (void)exception, __builtin_trap(); }
void _Unwind_Resume(void *exception) { (void)exception, __builtin_trap(); }
