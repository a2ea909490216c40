/** The doors with gRPC listeners of their own. */
import type { ServiceError } from '@grpc/grpc-js'
import { Float64, TimestampMillisecond, Utf8 } from 'apache-arrow'
import { command, descriptor, type FlightClient } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point, type TestClient } from '../../plugins/grpc/testing.ts'
import type { Answer, Door } from './door.ts'

export function grpc(client: TestClient): Door {
  return {
    name: 'grpc',
    async write(_node, measurement, samples, backfill = false) {
      const points = samples.map(({ host, ms, value }) => point(measurement, BigInt(ms) * 1_000_000n, { host }, { value }))
      return client.call('Write', { points, backfill }).then(() => ALL, answerOf)
    },
  }
}

export function flightSql(client: FlightClient): Door {
  return {
    name: 'flight_sql',
    async write(_node, measurement, samples, backfill = false) {
      const columns = [
        { name: '_time', type: new TimestampMillisecond(), values: samples.map(({ ms }) => ms) },
        { name: 'host', type: new Utf8(), values: samples.map(({ host }) => host) },
        { name: 'value', type: new Float64(), values: samples.map(({ value }) => value) },
      ]
      const to = descriptor(command('CommandStatementUpdate', { 1: measurement }))
      const { error } = await client.put('DoPut', flightStream(to, [columns], [JSON.stringify({ backfill })]))
      return error === undefined ? ALL : answerOf(error)
    },
  }
}

const ALL: Answer = { ok: true, code: undefined, rejected: 0, text: '' }

function answerOf({ details, metadata }: ServiceError): Answer {
  const [code] = metadata.get('svc-code') as string[]
  const rejected = /(\d+) rejected/.exec(details)?.[1]
  return { ok: false, code, rejected: rejected === undefined ? undefined : Number(rejected), text: details }
}
