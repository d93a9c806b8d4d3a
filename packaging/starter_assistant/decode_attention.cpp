// One decoding step of grouped-query attention for many conversations of different lengths.
//
// torch's own attention works on the longest row's length and reached 9 GB/s here; this loop reads only the
// slots each row has filled. Keys are stored transposed, [head_dim, capacity], so that both loops below run
// over contiguous memory without a horizontal sum, and the compiler vectorises them.
#include <ATen/Parallel.h>
#include <torch/extension.h>

#include <cmath>
#include <vector>

namespace {

constexpr int kDim = 64;      // head dimension
constexpr int kGroup = 3;     // query heads that share a key-value head
constexpr int kKvHeads = 3;
constexpr int kHeads = kGroup * kKvHeads;

inline float widen(uint16_t bits) {
    const uint32_t word = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}

inline uint16_t narrow(float value) {  // round to nearest even, as bfloat16 does
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    return static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
}

// Rotate-half rotary embedding of one head: (a, b) -> (a cos - b sin, b cos + a sin).
inline void rotate(const uint16_t* in, const float* cosine, const float* sine, float scale, float* out) {
    for (int d = 0; d < kDim / 2; ++d) {
        const float a = widen(in[d]), b = widen(in[d + kDim / 2]);
        out[d] = (a * cosine[d] - b * sine[d]) * scale;
        out[d + kDim / 2] = (b * cosine[d] + a * sine[d]) * scale;
    }
}

inline float softmax_in_place(float* scores, int64_t length) {  // returns 1 / sum
    float top = scores[0], sum = 0;
    for (int64_t j = 1; j < length; ++j) top = std::max(top, scores[j]);
    for (int64_t j = 0; j < length; ++j) scores[j] = std::exp(scores[j] - top);
    for (int64_t j = 0; j < length; ++j) sum += scores[j];
    return 1.0f / sum;
}

void attend_head(const float* query, const uint16_t* keys, const uint16_t* values, int64_t length,
                 int64_t capacity, float* scores, uint16_t* out) {
    std::fill(scores, scores + kGroup * length, 0.0f);
    for (int d = 0; d < kDim; ++d) {
        const uint16_t* row = keys + d * capacity;
        const float q0 = query[d], q1 = query[kDim + d], q2 = query[2 * kDim + d];
        float *s0 = scores, *s1 = scores + length, *s2 = scores + 2 * length;
        for (int64_t j = 0; j < length; ++j) {
            const float key = widen(row[j]);
            s0[j] += q0 * key;
            s1[j] += q1 * key;
            s2[j] += q2 * key;
        }
    }
    for (int g = 0; g < kGroup; ++g) {
        float* weights = scores + g * length;
        const float scale = softmax_in_place(weights, length);
        float total[kDim] = {0};
        for (int64_t j = 0; j < length; ++j) {
            const uint16_t* value = values + j * kDim;
            for (int d = 0; d < kDim; ++d) total[d] += weights[j] * widen(value[d]);
        }
        for (int d = 0; d < kDim; ++d) out[g * kDim + d] = narrow(total[d] * scale);
    }
}

}  // namespace

// qkv [rows, (9 + 3 + 3) * 64] bf16; cosine, sine [rows, 32] float; keys [rows, 3, 64, capacity] bf16;
// values [rows, 3, capacity, 64] bf16; position [rows] int64: the slot this step writes. Returns [rows, 576].
at::Tensor decode_attention(at::Tensor qkv, at::Tensor cosine, at::Tensor sine, at::Tensor keys,
                            at::Tensor values, at::Tensor position) {
    const int64_t rows = qkv.size(0), capacity = keys.size(3);
    at::Tensor out = at::empty({rows, kHeads * kDim}, qkv.options());
    const auto* qkv_data = reinterpret_cast<const uint16_t*>(qkv.const_data_ptr());
    auto* out_data = reinterpret_cast<uint16_t*>(out.data_ptr());
    auto* key_data = reinterpret_cast<uint16_t*>(keys.data_ptr());
    auto* value_data = reinterpret_cast<uint16_t*>(values.data_ptr());
    const auto* slots = position.const_data_ptr<int64_t>();
    const auto* cos_data = cosine.const_data_ptr<float>();
    const auto* sin_data = sine.const_data_ptr<float>();
    at::parallel_for(0, rows * kKvHeads, 1, [&](int64_t begin, int64_t end) {
        std::vector<float> scores(kGroup * capacity);
        float query[kGroup * kDim], key[kDim];
        for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t row = unit / kKvHeads, head = unit % kKvHeads, slot = slots[row];
            const uint16_t* heads = qkv_data + row * (kHeads + 2 * kKvHeads) * kDim;
            const float *c = cos_data + row * kDim / 2, *s = sin_data + row * kDim / 2;
            uint16_t* key_block = key_data + unit * kDim * capacity;
            uint16_t* value_block = value_data + unit * kDim * capacity;
            for (int g = 0; g < kGroup; ++g)
                rotate(heads + (head * kGroup + g) * kDim, c, s, 1.0f / std::sqrt(float(kDim)), query + g * kDim);
            rotate(heads + (kHeads + head) * kDim, c, s, 1.0f, key);
            for (int d = 0; d < kDim; ++d) key_block[d * capacity + slot] = narrow(key[d]);
            std::memcpy(value_block + slot * kDim, heads + (kHeads + kKvHeads + head) * kDim, kDim * 2);
            attend_head(query, key_block, value_block, slot + 1, capacity, scores.data(),
                        out_data + (row * kHeads + head * kGroup) * kDim);
        }
    });
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    module.def("decode_attention", &decode_attention, "One step of batched grouped-query attention");
}
