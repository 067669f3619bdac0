/* Libraries that aot-compile has to refuse: KIND says which. */
#include <stddef.h>
#include <stdint.h>

#if KIND == 0 /* something else */
int anything(void) { return 0; }
#elif KIND == 1 /* needs what the compiler has not */
int kiln_has_no_such_function(void);
const void *kilnGetPluginInfo(void) { return kiln_has_no_such_function() ? "" : NULL; }
#else
static const struct {
  uint32_t api;
  const char *kiln, *llvm, *name;
  void (*add_to)(void *registry);
} info = {API, KILN, LLVM, NULL, NULL};
const void *kilnGetPluginInfo(void) { return &info; }
#endif
