/* What a test tells the driver that runs nothing. */
#include "cuda.h"

/* Makes context `number` current, on a device of this compute capability. */
void fake_context(int number, int major, int minor);
/* Makes no context current. */
void fake_no_context(void);
/* Makes the call of this name fail; "" for none. */
void fake_failure(const char *call, CUresult result);
