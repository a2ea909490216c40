/** The protocols with gRPC listeners of their own. */
import type { ServiceError } from '@grpc/grpc-js'
import { Float64, TimestampMillisecond, Utf8 } from 'apache-arrow'
import type { TestNode } from 'svcdb/testkit'
import t from 'tap'
import { command, descriptor, FlightClient } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point, TestClient } from '../../plugins/grpc/testing.ts'
import type { Answer, Protocol } from './protocol.ts'

/** A client of each node, closed at the end. */
function clients<C extends { close(): void }>(make: (node: TestNode) => C): (node: TestNode) => C {
  const known = new Map<TestNode, C>()
  t.teardown(() => {
    for (const client of known.values()) client.close()
  })
  return (node) => {
    let client = known.get(node)
    if (client === undefined) known.set(node, (client = make(node)))
    return client
  }
}

export const grpcClient = clients((node) => new TestClient(node.port('grpc')))
export const flightClient = clients((node) => new FlightClient(node.port('flight_sql')))

export const grpc: Protocol = {
  name: 'grpc',
  async write(node, measurement, samples, backfill = false) {
    const points = samples.map(({ host, ms, value }) => point(measurement, BigInt(ms) * 1_000_000n, { host }, { value }))
    return grpcClient(node)
      .call('Write', { points, backfill })
      .then(() => ALL, answerOf)
  },
}

export const flightSql: Protocol = {
  name: 'flight_sql',
  async write(node, measurement, samples, backfill = false) {
    const columns = [
      { name: '_time', type: new TimestampMillisecond(), values: samples.map(({ ms }) => ms) },
      { name: 'host', type: new Utf8(), values: samples.map(({ host }) => host) },
      { name: 'value', type: new Float64(), values: samples.map(({ value }) => value) },
    ]
    const to = descriptor(command('CommandStatementUpdate', { 1: measurement }))
    const { error } = await flightClient(node).put('DoPut', flightStream(to, [columns], [JSON.stringify({ backfill })]))
    return error === undefined ? ALL : answerOf(error)
  },
}

const ALL: Answer = { ok: true, code: undefined, rejected: 0, text: '' }

function answerOf({ details, metadata }: ServiceError): Answer {
  const [code] = metadata.get('svc-code') as string[]
  const rejected = /(\d+) rejected/.exec(details)?.[1]
  return { ok: false, code, rejected: rejected === undefined ? undefined : Number(rejected), text: details }
}
