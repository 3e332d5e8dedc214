// Gradients lie in the order of their variables, so a bucket is one range of memory.
#include "sdk/passes/reduce_gradients.h"

#include <algorithm>

namespace assay {

std::vector<ValueId> append_all_reduce(Graph& graph, std::span<const ValueId> stored,
                                       std::optional<DType> wire, size_t bucket_bytes) {
  std::vector<ValueId> sums(stored.size());
  for (size_t end = stored.size(); end > 0;) {
    size_t begin = end, bytes = 0;
    while (begin > 0 && bytes < bucket_bytes) bytes += graph.type(stored[--begin]).bytes();
    const auto reduced = graph.emit(AllReduce{wire}, stored.subspan(begin, end - begin));
    graph.node(graph.value(reduced[0]).producer).queue = QueueId::kCommunication;
    std::ranges::copy(reduced, sums.begin() + static_cast<std::ptrdiff_t>(begin));
    end = begin;
  }
  return sums;
}

void begin_reductions_early(Graph& graph) {
  std::vector<int32_t> places;
  const auto place_of = [&](ValueId value) { return places[graph.value(value).producer.index]; };
  for (const Node& node : graph.nodes()) {
    int32_t place = static_cast<int32_t>(places.size());
    if (std::holds_alternative<Parameter>(node.op)) place = 0;
    if (std::holds_alternative<Store>(node.op)) place = place_of(node.inputs[1]);
    if (std::holds_alternative<AllReduce>(node.op)) {
      place = 0;
      for (const ValueId gradient : node.inputs) place = std::max(place, place_of(gradient));
    }
    places.push_back(place);
  }
  graph.sort(places);
}

}  // namespace assay
