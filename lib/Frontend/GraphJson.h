// The JSON readers of graphs, shared by the two files that read a program.
#ifndef KILN_LIB_FRONTEND_GRAPHJSON_H
#define KILN_LIB_FRONTEND_GRAPHJSON_H

#include "Json.h"
#include "kiln/Frontend/ExportedProgram.h"

namespace kiln::frontend {

/// The only field of a union; null, and an error reported, when there is not exactly one.
const json::Member *unionField(const json::Value &value, json::Path path);

bool fromJSON(const json::Value &value, TensorRef &out, json::Path path);
bool fromJSON(const json::Value &value, CustomObject &out, json::Path path);
bool fromJSON(const json::Value &value, Argument &out, json::Path path);
bool fromJSON(const json::Value &value, TensorMeta &out, json::Path path);
bool fromJSON(const json::Value &value, Graph &out, json::Path path);

/// Puts right what export is known to get wrong of the shapes of results.
void correctShapes(Graph &graph);

} // namespace kiln::frontend

#endif // KILN_LIB_FRONTEND_GRAPHJSON_H
