"""What every SavedModel for a model server holds to: its operations and signatures."""

import pathlib

import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from tests.serving import odd_texts

# What an exported model may consist of: operations of the model server's release
# 2.20, which links TensorFlow's and tensorflow-text's of that number. Whoever adds one
# looks it up in that release; Python functions (PyFunc) are in no server.
_NAMES = """
    AddV2 All Any ArgMax AsString Assert AssignVariableOp BatchMatMulV2 BiasAdd
    BitwiseAnd BroadcastTo Cast ConcatV2 Const Cumsum DecodeRaw DenseBincount
    DeviceIndex
    DisableCopyOnRead DivNoNan Einsum Equal Erf Exp ExpandDims Fill FloorDiv FloorMod
    GatherNd GatherV2 Greater GreaterEqual Identity If LeftShift Less LessEqual Log
    LogSoftmax LogicalAnd LogicalNot LogicalOr LowerBound MatMul Max Maximum Mean
    MergeV2Checkpoints Min Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack Pad
    PartitionedCall Placeholder Pow Prod RaggedGather RaggedRange RaggedTensorToTensor
    Range Rank ReadVariableOp RealDiv ReduceJoin Relu Reshape RestoreV2 RightShift Rsqrt
    SaveV2 ScatterNd ScatterNdNonAliasingAdd SegmentMin Select SelectV2 Shape
    ShardedFilename Sigmoid Size Slice Softmax SparseSoftmaxCrossEntropyWithLogits Split
    SplitV Sqrt Square SquaredDifference Squeeze StatefulPartitionedCall StatelessIf
    StatelessMultinomial StatelessWhile StaticRegexFullMatch StaticRegexReplace
    StopGradient StridedSlice StringJoin StringLength StringLower StringSplitV2 Sub
    Substr Sum Tanh TensorListFromTensor TensorListGetItem TensorListReserve
    TensorListSetItem TensorListStack TensorScatterUpdate Tile TopKV2 Transpose
    UnicodeDecode UnicodeEncode UnicodeTranscode Unique Unpack UnsortedSegmentJoin
    UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentSum UpperBound VarHandleOp
    Where While ZerosLike
"""
ALLOWED = set(_NAMES.split())
OF_TENSORFLOW_TEXT = {"FastWordpieceTokenizeWithOffsets", "NormalizeUTF8"}


def operations(version_dir):
    """The names of all operations, and all functions that are bound to XLA."""
    model = saved_model_pb2.SavedModel()
    path = pathlib.Path(version_dir) / "saved_model.pb"
    model.ParseFromString(path.read_bytes())
    graph = model.meta_graphs[0].graph_def
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    owners = [*nodes, *graph.library.function]
    compiled = [
        owner
        for owner in owners
        if "_XlaMustCompile" in owner.attr and owner.attr["_XlaMustCompile"].b
    ]
    functions = {function.signature.name for function in graph.library.function}
    return {node.op for node in nodes} - functions, compiled


def assert_servable(version_dir):
    """A model server has all operations; no rows give no rows."""
    used, compiled = operations(version_dir)
    assert used - ALLOWED == OF_TENSORFLOW_TEXT
    assert not compiled  # a server may lack XLA
    odd_texts.assert_no_rows(tf.saved_model.load(str(version_dir)).signatures)


def described(signatures):
    """{name: (inputs, outputs)}, with {name: (shape, dtype)} each."""

    def shapes(specs):
        return {k: (v.shape.as_list(), v.dtype.name) for k, v in specs.items()}

    return {
        name: (shapes(s.structured_input_signature[1]), shapes(s.structured_outputs))
        for name, s in signatures.items()
    }
