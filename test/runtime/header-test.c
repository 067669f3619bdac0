/* That the public header is C99 on its own, and that its DLPack has the layout
 * which the standard fixes. Compiling is the test; header-test.cpp repeats it. */
#include "kiln-c/model.h"

#define SAME(name, condition) typedef char name[(condition) ? 1 : -1]
SAME(tensor_size, sizeof(DLTensor) == 48);
SAME(tensor_shape, offsetof(DLTensor, shape) == 24);
SAME(tensor_offset, offsetof(DLTensor, byte_offset) == 40);
SAME(managed_size, sizeof(DLManagedTensorVersioned) == 80);
SAME(managed_flags, offsetof(DLManagedTensorVersioned, flags) == 24);
SAME(managed_tensor, offsetof(DLManagedTensorVersioned, dl_tensor) == 32);
SAME(device_size, sizeof(DLDevice) == 8);
SAME(dtype_size, sizeof(DLDataType) == 4);
SAME(options_size, sizeof(kiln_options) == 120);
SAME(options_old_size, offsetof(kiln_options, profile) == 80);
SAME(options_before_groups_size, offsetof(kiln_options, communicator) == 96);
SAME(event_size, sizeof(kiln_profile_event) == 96);
SAME(options_pointers, offsetof(kiln_options, parallel_for) == 16);
SAME(bool_code, kDLBool == 6);
SAME(version, KILN_ABI_VERSION == 2);
