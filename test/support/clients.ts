/** Clients of the listeners for gRPC. */
import type { TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import { FlightClient } from '../../plugins/flight_sql/testing.ts'
import { TestClient } from '../../plugins/grpc/testing.ts'

/** When the test ends they are closed, and the node is stopped. */
export function clientsOf(t: Test, node: TestNode): { grpc: TestClient; flight: FlightClient } {
  const [grpc, flight] = [new TestClient(node.port('grpc')), new FlightClient(node.port('flight_sql'))]
  t.teardown(async () => {
    grpc.close()
    flight.close()
    await node.stop()
  })
  return { grpc, flight }
}
