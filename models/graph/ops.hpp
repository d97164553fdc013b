// SPDX-License-Identifier: Apache-2.0
// The parts of the op catalogue, and what they have in common. Internal to models/graph.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph/catalogue.hpp"

namespace gpusim {

std::vector<OpKind> view_ops();
std::vector<OpKind> pointwise_ops();
std::vector<OpKind> reduction_ops();
std::vector<OpKind> product_ops();
std::vector<OpKind> data_ops();
std::vector<OpKind> backward_ops();
std::vector<OpKind> scatter_backward_ops();
std::vector<OpKind> optimizer_ops();
std::vector<OpKind> communication_ops();

/// -1 is the last dimension. Throws ShapeError.
int dimension(std::int64_t dim, int rank);

/// The number format of the calibrated kernels for tensors of this element type: integers and truth values
/// count as the floating format of their width.
Dtype kernel_dtype(ElementType type);

/// The rate that matrix products of such tensors run at on `gpu`: of fp32 that of tf32, where the device has
/// one and its setting allows it. The type must be one that is multiplied.
Dtype matmul_dtype(ElementType type, const GpuSpec& gpu);
/// The same for convolutions and attention, which take tf32 wherever the device has it
/// (torch.backends.cudnn.allow_tf32).
Dtype convolution_dtype(ElementType type, const GpuSpec& gpu);

/// The shape of `a op b` with broadcasting. Throws ShapeError.
Dims broadcast(const Dims& a, const Dims& b);

/// The layout that an elementwise op gives its output of this shape, by PyTorch's rule: that of its operands
/// where they agree and are dense, else dense in the order of their strides.
Dims pointwise_strides(std::span<const TensorType* const> operands, const Dims& shape);

/// One elementwise kernel over the op's inputs, broadcast where smaller, and its outputs.
Pointwise pointwise_work(const OpView& op, double lane_cycles);
/// A kernel that writes `to` from `from` element by element: casts, and copies into another layout.
KernelWork copy_work(const TensorType& from, const TensorType& to);
/// Whether the framework copies an operand of a batched product whose result has the batch dimensions
/// `batch`: they do not fold into one, or the library cannot read the matrices.
bool copied_for_product(const TensorType& operand, const Dims& batch);
/// The convolution of `x` with `weight` that the attributes of conv2d describe.
Convolution convolution_of(const TensorType& x, const TensorType& weight, const Attributes& attributes);
/// Writing `type` without reading.
Pointwise fill_work(const TensorType& type);

/// Of a gradient's op: the first input has the shape of another (`what` it is), is floating; an input of
/// places is integer. Throw ShapeError.
void want_same_shape(const OpView& op, std::size_t input, std::string_view what);
void want_floating_gradient(const OpView& op);
void want_indices(const OpView& op, std::size_t input);
/// A copy in which the last dimension is innermost, for kernels that read nothing else.
void add_contiguous(const TensorType& type, std::vector<KernelWork>& work);

}  // namespace gpusim
