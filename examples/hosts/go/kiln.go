package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../../include
#cgo LDFLAGS: -ldl
#include "kiln-c/model.h"
#include <dlfcn.h>
#include <stdlib.h>

// Go cannot call C function pointers.
typedef struct {
  void *library;
  kiln_model *model;
  kiln_model_run_fn run;
  kiln_model_destroy_fn destroy;
  kiln_last_error_fn last_error;
} loaded;

// Returns null, or a message.
static const char *load(const char *path, loaded *to) {
  to->library = dlopen(path, RTLD_NOW);
  if (!to->library)
    return dlerror();
  kiln_abi_version_fn version = (kiln_abi_version_fn)dlsym(to->library, "kiln_abi_version");
  kiln_model_create_fn create = (kiln_model_create_fn)dlsym(to->library, "kiln_model_create");
  to->run = (kiln_model_run_fn)dlsym(to->library, "kiln_model_run");
  to->destroy = (kiln_model_destroy_fn)dlsym(to->library, "kiln_model_destroy");
  to->last_error = (kiln_last_error_fn)dlsym(to->library, "kiln_last_error");
  if (!version || !create || !to->run || !to->destroy || !to->last_error)
    return "this is not a model";
  if (version() < 1 || version() > KILN_ABI_VERSION)
    return "the model has another version of the ABI";
  return create(NULL, &to->model) == KILN_OK ? NULL : to->last_error();
}

static void unload(loaded *model) {
  if (model->model)
    model->destroy(model->model);
  if (model->library)
    dlclose(model->library);
}

// Runs a model of one input and one output, of float32.
static const char *run(loaded *model, float *data, int64_t *shape, int32_t rank, DLManagedTensorVersioned **output) {
  DLTensor input = {.data = data, .device = {kDLCPU, 0}, .ndim = rank, .dtype = {kDLFloat, 32, 1}, .shape = shape};
  const DLTensor *inputs[] = {&input};
  return model->run(model->model, inputs, 1, output, 1, NULL) == KILN_OK ? NULL : model->last_error();
}

static void release(DLManagedTensorVersioned *tensor) {
  if (tensor->deleter)
    tensor->deleter(tensor);
}
*/
import "C"

import (
	"errors"
	"runtime"
	"unsafe"
)

// Model is a compiled model. Close ends it.
type Model struct{ loaded C.loaded }

// Open loads the model in the file path.
func Open(path string) (*Model, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	// The message of a failure belongs to the thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	model := &Model{}
	if message := C.load(name, &model.loaded); message != nil {
		err := errors.New(C.GoString(message))
		model.Close()
		return nil, err
	}
	return model, nil
}

// Close frees the model. No run may be in progress.
func (model *Model) Close() {
	C.unload(&model.loaded)
	model.loaded = C.loaded{}
}

// Run gives a model of one input its elements, row-major, and returns those of its one output, with their shape.
func (model *Model) Run(data []float32, shape []int64) ([]float32, []int64, error) {
	count := int64(1)
	for _, size := range shape {
		count *= size
	}
	if count != int64(len(data)) || count == 0 || len(shape) == 0 {
		return nil, nil, errors.New("data and shape differ, or are empty")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var output *C.DLManagedTensorVersioned
	message := C.run(&model.loaded, (*C.float)(&data[0]), (*C.int64_t)(&shape[0]), C.int32_t(len(shape)), &output)
	if message != nil {
		return nil, nil, errors.New(C.GoString(message))
	}
	defer C.release(output)
	tensor := &output.dl_tensor
	if tensor.dtype.code != C.kDLFloat || tensor.dtype.bits != 32 {
		return nil, nil, errors.New("the output is not of float32")
	}
	sizes := append([]int64(nil), unsafe.Slice((*int64)(unsafe.Pointer(tensor.shape)), int(tensor.ndim))...)
	total := int64(1)
	for _, size := range sizes {
		total *= size
	}
	first := (*float32)(unsafe.Add(tensor.data, uintptr(tensor.byte_offset)))
	return append([]float32(nil), unsafe.Slice(first, int(total))...), sizes, nil
}
