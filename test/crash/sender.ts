/** Sends batches of the workload by the protocol that each is for. */
import type { ServiceError } from '@grpc/grpc-js'
import { Bool, Float64, Int64, TimestampNanosecond, Utf8 } from 'apache-arrow'
import { compressSync } from 'snappy'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { command, descriptor, FlightClient } from '../../plugins/flight_sql/testing.ts'
import { flightStream } from '../../plugins/flight_sql/testing-stream.ts'
import { point, TestClient } from '../../plugins/grpc/testing.ts'
import { bodyOf, MEASUREMENT, NS_PER_BATCH, type Protocol, protocolOf, sizeOf, timeOf, type Values, valuesOf } from './workload.ts'

/** `none`: the server promises that nothing was stored. `full`: likewise, and its disk has no room. `gone`: it has not answered. */
export type Outcome = { outcome: 'ack' | 'none' | 'gone' } | { outcome: 'full' | 'bad'; text: string }

export interface SenderOptions {
  url: string
  base: bigint
  protocols: readonly Protocol[]
  /** Of the gRPC listeners. */
  ports: { grpc: number; flight: number }
}

const ACK: Outcome = { outcome: 'ack' }
const PATHS: Partial<Record<Protocol, { path: string; headers: Record<string, string> }>> = {
  line_protocol: { path: '/api/v2/write?precision=ns', headers: { 'content-type': 'text/plain; charset=utf-8' } },
  json: { path: '/api/v1/write', headers: { 'content-type': 'application/json' } },
  remote_write: { path: '/api/v1/prom/write', headers: { 'content-type': 'application/x-protobuf', 'content-encoding': 'snappy' } },
  otlp: { path: '/v1/metrics', headers: { 'content-type': 'application/json' } },
}

export class Sender {
  private readonly options: SenderOptions
  private readonly grpc: TestClient | undefined
  private readonly flight: FlightClient | undefined

  constructor(options: SenderOptions) {
    this.options = options
    if (options.protocols.includes('grpc')) this.grpc = new TestClient(options.ports.grpc)
    if (options.protocols.includes('flight_sql')) this.flight = new FlightClient(options.ports.flight)
  }

  async send(batch: number): Promise<Outcome> {
    const { base, protocols } = this.options
    const protocol = protocolOf(batch, protocols)
    const points = Array.from({ length: sizeOf(batch) }, (_, place): Point => ({ ...valuesOf(batch, place), time: timeOf(base, batch, place), place }))
    switch (protocol) {
      case 'grpc':
        return this.overGrpc(points)
      case 'flight_sql':
        return this.overFlight(points)
      case 'remote_write':
        return this.post(protocol, compressSync(Buffer.from(remoteWrite(base + BigInt(batch) * NS_PER_BATCH, points))))
      case 'otlp':
        return this.post(protocol, otlp(points))
      default:
        return this.post(protocol, bodyOf(base, batch, protocol))
    }
  }

  close(): void {
    this.grpc?.close()
    this.flight?.close()
  }

  private async post(protocol: Protocol, body: string | Uint8Array): Promise<Outcome> {
    const { path, headers } = PATHS[protocol] as { path: string; headers: Record<string, string> }
    try {
      const answer = await fetch(this.options.url + path, { method: 'POST', headers, body: body as string | Uint8Array<ArrayBuffer> })
      const text = await answer.text()
      if (answer.status === 204) return ACK
      // Collectors do not try again after 507.
      if (answer.status === (protocol === 'otlp' ? 503 : 507) && /STORAGE_FULL|no space/.test(text) && answer.headers.get('retry-after') === '5')
        return { outcome: 'full', text }
      return answer.status === 503 ? { outcome: 'none' } : { outcome: 'bad', text: `${answer.status} ${text}` }
    } catch {
      return { outcome: 'gone' }
    }
  }

  private async overGrpc(points: readonly Point[]): Promise<Outcome> {
    const messages = points.map(({ time, tags, float, integer, text, decimal, flag }) =>
      point(MEASUREMENT.grpc, time, tags, { f: float, i: integer, t: text, d: { decimal }, b: flag }),
    )
    return (this.grpc as TestClient).call('Write', { points: messages }).then(() => ACK, outcomeOf)
  }

  private async overFlight(points: readonly Point[]): Promise<Outcome> {
    const column = <K extends keyof Point>(key: K) => points.map((each) => each[key])
    const columns = [
      { name: '_time', type: new TimestampNanosecond(), values: column('time') },
      { name: 'host', type: new Utf8(), values: points.map(({ tags }) => tags.host) },
      { name: 'zone', type: new Utf8(), values: points.map(({ tags }) => tags.zone) },
      { name: 'f', type: new Float64(), values: column('float') },
      { name: 'i', type: new Int64(), values: column('integer') },
      { name: 'b', type: new Bool(), values: column('flag') },
      { name: 't', type: new Utf8(), values: column('text'), role: 'field' },
    ]
    const to = descriptor(command('CommandStatementUpdate', { 1: MEASUREMENT.flight_sql }))
    const { error } = await (this.flight as FlightClient).put('DoPut', flightStream(to, [columns]))
    return error === undefined ? ACK : outcomeOf(error)
  }
}

interface Point extends Values {
  time: bigint
  place: number
}

/** A status without a code of the server's comes from the client: the connection is lost. */
function outcomeOf({ code, details, metadata }: ServiceError): Outcome {
  const [given] = metadata?.get('svc-code') ?? []
  if (given === undefined) return { outcome: 'gone' }
  // RESOURCE_EXHAUSTED
  if (given === 'STORAGE_FULL' && code === 8) return { outcome: 'full', text: details }
  return given === 'BACKPRESSURE' ? { outcome: 'none' } : { outcome: 'bad', text: `${code} ${given} ${details}` }
}

function otlp(points: readonly Point[]): string {
  const dataPoints = points.map(({ tags, time, float }) => ({
    attributes: Object.entries(tags).map(([key, stringValue]) => ({ key, value: { stringValue } })),
    timeUnixNano: String(time),
    asDouble: float,
  }))
  const metric = { name: MEASUREMENT.otlp, sum: { aggregationTemporality: 2, isMonotonic: true, dataPoints } }
  return JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [metric] }] }] })
}

function remoteWrite(time: bigint, points: readonly Point[]): Uint8Array {
  const writer = new ProtobufWriter()
  for (const { tags, place, float } of points) {
    const series = writer.open(1)
    for (const [name, value] of Object.entries({ __name__: MEASUREMENT.remote_write, ...tags, place: `p${place}` })) {
      const label = writer.open(1)
      writer.string(1, name)
      writer.string(2, value)
      writer.close(label)
    }
    const sample = writer.open(2)
    writer.double(1, float)
    writer.int(2, Number(time / 1_000_000n))
    writer.close(sample)
    writer.close(series)
  }
  return writer.take()
}
