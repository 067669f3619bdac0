// Arguments of calls as values of LibTorch.
#include "Arguments.h"

#include <ATen/DLConvertor.h>
#include <ATen/ScalarOps.h>
#include <cstring>

using namespace kiln::torch_library;

const kiln_extern_value *kiln::torch_library::skip(const kiln_extern_value *value) {
  uint32_t children = value->kind == KILN_EXTERN_LIST      ? value->count
                      : value->kind == KILN_EXTERN_DICT    ? 2 * value->count
                      : value->kind == KILN_EXTERN_COMPLEX ? 2
                                                           : 0;
  ++value;
  while (children--)
    value = skip(value);
  return value;
}

at::ScalarType kiln::torch_library::scalarType(uint8_t code, uint8_t bits) {
  return at::toScalarType(DLDataType{code, bits, 1});
}

static double toDouble(int64_t bits) {
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

static at::Layout layout(const char *name) {
  constexpr std::pair<const char *, at::Layout> layouts[] = {
      {"strided", at::kStrided},      {"sparse_coo", at::kSparse},
      {"sparse_csr", at::kSparseCsr}, {"sparse_csc", at::kSparseCsc},
      {"sparse_bsr", at::kSparseBsr}, {"sparse_bsc", at::kSparseBsc},
      {"_mkldnn", at::kMkldnn},       {"mkldnn", at::kMkldnn}};
  for (auto [text, layout] : layouts)
    if (std::strcmp(name, text) == 0)
      return layout;
  TORCH_CHECK(false, "unknown layout ", name);
}

static at::MemoryFormat memoryFormat(const char *name) {
  constexpr std::pair<const char *, at::MemoryFormat> formats[] = {
      {"contiguous", at::MemoryFormat::Contiguous},
      {"channels_last", at::MemoryFormat::ChannelsLast},
      {"channels_last_3d", at::MemoryFormat::ChannelsLast3d},
      {"preserve", at::MemoryFormat::Preserve}};
  for (auto [text, format] : formats)
    if (std::strcmp(name, text) == 0)
      return format;
  TORCH_CHECK(false, "unknown memory format ", name);
}

c10::IValue ArgumentReader::readPlain(const kiln_extern_value *&value) const {
  const kiln_extern_value &v = *value++;
  switch (v.kind) {
  case KILN_EXTERN_NONE:
    return {};
  case KILN_EXTERN_TENSOR:
    return tensors[v.value];
  case KILN_EXTERN_ITEM:
    return tensors[v.value].item();
  case KILN_EXTERN_INT:
    return v.value;
  case KILN_EXTERN_NUMBER:
    return numbers[v.value];
  case KILN_EXTERN_BOOL:
    return v.value != 0;
  case KILN_EXTERN_FLOAT:
    return toDouble(v.value);
  case KILN_EXTERN_COMPLEX: {
    double real = toDouble(value[0].value), imag = toDouble(value[1].value);
    value += 2;
    return c10::complex<double>(real, imag);
  }
  case KILN_EXTERN_STRING:
    return std::string(v.text);
  case KILN_EXTERN_DTYPE:
    return static_cast<int64_t>(
        scalarType(static_cast<uint8_t>(v.value >> 8), static_cast<uint8_t>(v.value)));
  case KILN_EXTERN_DEVICE:
    return at::Device(v.text);
  case KILN_EXTERN_LAYOUT:
    return static_cast<int64_t>(layout(v.text));
  case KILN_EXTERN_MEMORY_FORMAT:
    return static_cast<int64_t>(memoryFormat(v.text));
  case KILN_EXTERN_LIST: {
    c10::impl::GenericList list(c10::AnyType::get());
    for (uint32_t i = 0; i < v.count; ++i)
      list.push_back(readPlain(value));
    return list;
  }
  default:
    TORCH_CHECK(false, "an argument of unknown kind ", v.kind);
  }
}

c10::IValue ArgumentReader::read(const kiln_extern_value *&value, const c10::Type &type) const {
  if (type.kind() == c10::TypeKind::OptionalType) {
    if (value->kind == KILN_EXTERN_NONE)
      return readPlain(value);
    return read(value, *type.castRaw<c10::OptionalType>()->getElementType());
  }
  if (type.kind() == c10::TypeKind::ListType) {
    c10::TypePtr element = type.castRaw<c10::ListType>()->getElementType();
    c10::impl::GenericList list(element);
    if (value->kind != KILN_EXTERN_LIST) { // one stands for a list of one
      list.push_back(read(value, *element));
      return list;
    }
    uint32_t count = value++->count;
    list.reserve(count);
    for (uint32_t i = 0; i < count; ++i)
      list.push_back(read(value, *element));
    return list;
  }
  if (type.kind() == c10::TypeKind::DictType) {
    TORCH_CHECK(value->kind == KILN_EXTERN_DICT, "expected a dictionary");
    const auto *dict = type.castRaw<c10::DictType>();
    c10::impl::GenericDict result(dict->getKeyType(), dict->getValueType());
    uint32_t count = value++->count;
    for (uint32_t i = 0; i < count; ++i) {
      c10::IValue key = readPlain(value);
      result.insert(key, read(value, *dict->getValueType()));
    }
    return result;
  }

  c10::IValue plain = readPlain(value);
  switch (type.kind()) {
  case c10::TypeKind::TensorType:
    if (plain.isScalar()) { // takes part in type promotion as a number
      at::Tensor number = c10::scalar_to_tensor(plain.toScalar());
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      return number;
    }
    return plain;
  case c10::TypeKind::FloatType:
  case c10::TypeKind::SymFloatType:
    return plain.isScalar() ? c10::IValue(plain.toScalar().toDouble()) : plain;
  case c10::TypeKind::IntType:
  case c10::TypeKind::SymIntType:
    return plain.isScalar() ? c10::IValue(plain.toScalar().toLong()) : plain;
  case c10::TypeKind::BoolType:
  case c10::TypeKind::SymBoolType:
    return plain.isScalar() ? c10::IValue(plain.toScalar().toBool()) : plain;
  default:
    return plain;
  }
}
