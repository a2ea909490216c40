/** Calls of gRPC and Flight SQL that are made to hold the event loop. */
import type { ProtobufWriter } from 'svcdb/lib/protobuf'
import { type AttackBody, bytesOf, type GrpcBody, grpc, message, NANOS, nested, range } from './loop-body.ts'

export function grpcCalls(frame: number, points: number, size: (most: number) => number): AttackBody[] {
  const tag = (out: ProtobufWriter, key: string, value: string): void =>
    nested(out, 2, () => {
      out.string(1, key)
      out.string(2, value)
    })
  const field = (out: ProtobufWriter, key: string, write: () => void): void =>
    nested(out, 3, () => {
      out.string(1, key)
      nested(out, 2, write)
    })
  const point = (out: ProtobufWriter, measurement: string, tags: Record<string, string>): void =>
    nested(out, 1, () => {
      out.string(1, measurement)
      for (const [key, value] of Object.entries(tags)) tag(out, key, value)
      field(out, 'v', () => out.double(1, 1))
      out.int(4, Number(NANOS))
    })
  const text = () => 'x'.repeat(frame)
  const empty = () => Buffer.alloc(size(16_000_000), Uint8Array.of(0x0a, 0))
  const writes = {
    'long string': () =>
      message((out) =>
        nested(out, 1, () => {
          out.string(1, 'g1')
          field(out, 'v', () => out.string(5, text()))
        }),
      ),
    'long tag': () => message((out) => point(out, 'g2', { h: text() })),
    'empty points': empty,
    'members of no meaning': () => Buffer.alloc(size(60_000_000), Uint8Array.of(0x78, 0)),
    'members of no meaning in a point': () =>
      message((out) =>
        nested(out, 1, () => {
          out.string(1, 'g8')
          out.append(Buffer.alloc(size(60_000_000), Uint8Array.of(0x78, 0)))
        }),
      ),
    'known series': () =>
      message((out) => {
        for (let i = 0; i < points; i++) point(out, 'g3', { h: 'a' })
      }),
    'new series': () =>
      message((out) => {
        for (let i = 0; i < points; i++) point(out, 'g4', { h: `a${i}` })
      }),
    'new measurements': () =>
      message((out) => {
        for (let i = 0; i < size(5000); i++) point(out, `g5_${i}`, {})
      }),
    tags: () => message((out) => point(out, 'g6', Object.fromEntries(range(size(1_000_000), (i) => [`t${i}`, 'v'])))),
    fields: () =>
      message((out) =>
        nested(out, 1, () => {
          out.string(1, 'g7')
          for (let i = 0; i < size(2_000_000); i++) field(out, `f${i}`, () => out.double(1, 1))
        }),
      ),
  }
  const flight = (name: string, method: string, stream: boolean, message: () => Uint8Array): GrpcBody => ({
    over: 'flight_sql',
    name: `Flight ${method}: ${name}`,
    path: `/arrow.flight.protocol.FlightService/${method}`,
    message: () => bytesOf(message()),
    stream,
  })
  const command = (type: string, write: (out: ProtobufWriter) => void): Uint8Array =>
    message((out) => {
      out.string(1, `type.googleapis.com/arrow.flight.protocol.sql.${type}`)
      out.blob(2, message(write))
    })
  return [
    ...Object.entries(writes).map(([name, bytes]) => grpc(name, 'Write', bytes)),
    ...(['empty points', 'members of no meaning', 'known series', 'new measurements'] as const).map((name) => grpc(name, 'StreamWrite', writes[name])),
    grpc('long statement', 'ExecuteSql', () => message((out) => out.string(1, text()))),
    grpc('long statement', 'Query', () => message((out) => out.string(1, text()))),
    grpc('empty parts', 'Delete', empty),
    flight('long statement', 'GetFlightInfo', false, () =>
      message((out) => {
        out.int(1, 2)
        out.blob(
          2,
          command('CommandStatementQuery', (inner) => inner.string(1, text())),
        )
      }),
    ),
    flight('a path of empty names', 'GetFlightInfo', false, () =>
      message((out) => {
        out.int(1, 1)
        out.append(Buffer.alloc(size(16_000_000), Uint8Array.of(0x1a, 0)))
      }),
    ),
    flight('prepared statement', 'DoAction', false, () =>
      message((out) => {
        out.string(1, 'CreatePreparedStatement')
        out.blob(
          2,
          command('ActionCreatePreparedStatementRequest', (inner) => inner.string(1, text())),
        )
      }),
    ),
  ]
}
