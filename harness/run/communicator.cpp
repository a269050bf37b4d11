#include "harness/run/communicator.h"

namespace shardproof {

void Communicator::send(const View& data, int target, int tag) {
  Request request = start_send(data, target, tag);
  wait(request);
}

void Communicator::receive(const View& data, int source, int tag) {
  Request request = start_receive(data, source, tag);
  wait(request);
}

Communicator::Exchange Communicator::start_exchange(const View& outgoing, int target,
                                                    const View& incoming, int source, int tag) {
  Exchange exchange;
  exchange.receive = start_receive(incoming, source, tag);
  exchange.send = start_send(outgoing, target, tag);
  launch();
  return exchange;
}

void Communicator::wait(Exchange& exchange) {
  wait(exchange.receive);
  wait(exchange.send);
}

}  // namespace shardproof
