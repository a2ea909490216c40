/** gRPC and Flight SQL: messages of many small parts, calls of many small messages, statements, handles and metadata. */
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import t, { type Test } from 'tap'
import { filled, grows, processorMsOf } from '../../support/growth.ts'
import { bytesOf, message, NANOS, nested } from '../loop-body.ts'
import { growthNode } from './requests.ts'

const BYTES = 1_000_000
const ANSWER_MS = 60_000
/** UNKNOWN, INTERNAL, DATA_LOSS: nobody has thought of it. */
const FAULTS: ReadonlySet<number> = new Set([2, 13, 15])

interface Call {
  method: string
  messages(bytes: number): Uint8Array[]
  metadata?(bytes: number): Metadata
  bytes?: number
}

const times = (bytes: number, of: number, item: (i: number) => void): void => {
  for (let i = 0; i < Math.max(1, Math.floor(bytes / of)); i++) item(i)
}
type Write = (out: ProtobufWriter, bytes: number) => void
const calls = (method: string, write: Write): Call => ({ method, messages: (bytes) => [message((out) => write(out, bytes))] })
const point = (write: Write): Call =>
  calls('/svc.Service/Write', (out, bytes) =>
    nested(out, 1, () => {
      out.string(1, 'g')
      write(out, bytes)
      out.int(4, Number(NANOS))
    }),
  )
const tag = (out: ProtobufWriter, key: string): void =>
  nested(out, 2, () => {
    out.string(1, key)
    out.string(2, 'v')
  })
const field = (out: ProtobufWriter, key: string, write: () => void = () => out.double(1, 1)): void =>
  nested(out, 3, () => {
    out.string(1, key)
    nested(out, 2, write)
  })

const GRPC: Record<string, Call> = {
  'empty points': calls('/svc.Service/Write', (out, bytes) => times(bytes, 2, () => out.blob(1, Uint8Array.of()))),
  'a point again and again': calls('/svc.Service/Write', (out, bytes) =>
    times(bytes, 24, (i) =>
      nested(out, 1, () => {
        out.string(1, 'p')
        field(out, 'v')
        out.int(4, Number(NANOS) + i * 1000)
      }),
    ),
  ),
  'fields in turn': calls('/svc.Service/Write', (out, bytes) =>
    times(bytes, 24, (i) =>
      nested(out, 1, () => {
        out.string(1, `q${i % 7}`)
        field(out, `v${i % 500}`)
      }),
    ),
  ),
  'many tags': point((out, bytes) => times(bytes, 12, (i) => tag(out, `t${i}`))),
  'a tag again and again': point((out, bytes) => times(bytes, 8, () => tag(out, 't'))),
  'many fields': point((out, bytes) => times(bytes, 18, (i) => field(out, `f${i}`))),
  'a field again and again': point((out, bytes) => times(bytes, 14, () => field(out, 'f'))),
  'a value again and again': point((out, bytes) => field(out, 'f', () => times(bytes, 9, () => out.double(1, 1)))),
  'a measurement again and again': point((out, bytes) => times(bytes, 4, (i) => out.string(1, `m${i % 10}`))),
  'a long name': point((out, bytes) => field(out, 'f'.repeat(bytes))),
  'a long text': point((out, bytes) => field(out, 'f', () => out.string(5, 'x'.repeat(bytes)))),
  'digits of a decimal': point((out, bytes) => field(out, 'f', () => out.string(6, '1'.repeat(bytes)))),
  'digits of what is no decimal': point((out, bytes) => field(out, 'f', () => out.string(6, `${'1'.repeat(bytes)}x`))),
  'fields that nobody knows': calls('/svc.Service/Write', (out, bytes) => times(bytes, 4, () => out.int(99, 1))),
  groups: calls('/svc.Service/Write', (out, bytes) => out.append(Buffer.alloc(bytes, 0x0b))),
  'long varints': calls('/svc.Service/Write', (out, bytes) => out.append(Buffer.alloc(bytes, 0xff))),
  'messages of nothing': { method: '/svc.Service/StreamWrite', messages: (bytes) => Array.from({ length: bytes / 50 }, () => Uint8Array.of()), bytes: 400_000 },
  'messages of one empty point': {
    method: '/svc.Service/StreamWrite',
    messages: (bytes) => Array.from({ length: bytes / 50 }, () => Uint8Array.of(0x0a, 0)),
    bytes: 200_000,
  },
  'a statement': calls('/svc.Service/ExecuteSql', (out, bytes) => out.string(1, `SELECT ${'/*'.repeat(bytes / 2)}`)),
  'parts of a delete': calls('/svc.Service/Delete', (out, bytes) => times(bytes, 2, () => out.blob(2, Uint8Array.of()))),
  metadata: {
    method: '/svc.Service/Write',
    messages: () => [Uint8Array.of()],
    bytes: 12_000,
    metadata: (bytes) => {
      const metadata = new Metadata()
      for (let i = 0; i < bytes / 20; i++) metadata.add(i % 2 === 0 ? 'traceparent' : `x-k${i}`, '00-0-0-00')
      return metadata
    },
  },
}

const flight = (method: string, write: Write): Call => calls(`/arrow.flight.protocol.FlightService/${method}`, write)
const command = (type: string, write: (out: ProtobufWriter) => void): Uint8Array => {
  const inner = new ProtobufWriter()
  write(inner)
  return message((out) => {
    out.string(1, `type.googleapis.com/arrow.flight.protocol.sql.${type}`)
    out.blob(2, inner.take())
  })
}
const info = (type: string, write: Write): Call =>
  flight('GetFlightInfo', (out, bytes) => {
    out.int(1, 2)
    out.blob(
      2,
      command(type, (inner) => write(inner, bytes)),
    )
  })
const action = (name: string, body: (bytes: number) => Uint8Array): Call =>
  flight('DoAction', (out, bytes) => {
    out.string(1, name)
    out.blob(2, body(bytes))
  })
const FLIGHT: Record<string, Call> = {
  'a path of empty names': flight('GetFlightInfo', (out, bytes) => {
    out.int(1, 1)
    times(bytes, 2, () => out.string(3, ''))
  }),
  'a statement': info('CommandStatementQuery', (out, bytes) => out.string(1, 'x'.repeat(bytes))),
  'a statement again and again': info('CommandStatementQuery', (out, bytes) => times(bytes, 10, () => out.string(1, 'SELECT 1'))),
  'a handle': info('CommandPreparedStatementQuery', (out, bytes) => out.blob(1, new Uint8Array(bytes))),
  'a pattern of tables': info('CommandGetTables', (out, bytes) => out.string(3, '%_'.repeat(bytes / 2))),
  'types of tables': info('CommandGetTables', (out, bytes) => times(bytes, 3, () => out.string(4, 'T'))),
  'what is asked of SQL': info('CommandGetSqlInfo', (out, bytes) => times(bytes, 2, (i) => out.int(1, i % 100))),
  'a command that nobody knows': info('x'.repeat(1000), (out, bytes) => out.string(1, 'x'.repeat(bytes))),
  'a ticket': flight('DoGet', (out, bytes) => out.blob(1, new Uint8Array(bytes))),
  'a ticket of a statement': flight('DoGet', (out, bytes) =>
    out.blob(
      1,
      command('TicketStatementQuery', (inner) => inner.blob(1, new Uint8Array(bytes))),
    ),
  ),
  // Some 10,000 parameters take 0.7 s, and no more than that however many there are.
  'a prepared statement': action('CreatePreparedStatement', (bytes) =>
    command('ActionCreatePreparedStatementRequest', (out) => out.string(1, `SELECT ${filled(bytes, '?,')}1`)),
  ),
  'an action that nobody knows': action('x'.repeat(1000), (bytes) => new Uint8Array(bytes)),
  'options of a session': action('SetSessionOptions', (bytes) =>
    message((out) =>
      times(bytes, 14, (i) =>
        nested(out, 1, () => {
          out.string(1, `k${i}`)
          nested(out, 2, () => out.string(1, 'v'))
        }),
      ),
    ),
  ),
}

/** Starts a thread, which loads DuckDB: that would count as what the first of the others takes. */
const FIRST = 'SELECT 1'

t.test('gRPC', async (t) =>
  callsGrow(
    t,
    'grpc',
    calls('/svc.Service/ExecuteSql', (out) => out.string(1, FIRST)),
    GRPC,
  ),
)
t.test('Flight SQL', async (t) =>
  callsGrow(
    t,
    'flight_sql',
    info('CommandStatementQuery', (out) => out.string(1, FIRST)),
    FLIGHT,
  ),
)

async function callsGrow(t: Test, plugin: string, first: Call, families: Record<string, Call>): Promise<void> {
  const node = await growthNode(t, [plugin], { [plugin]: { addr: '127.0.0.1:0' } })
  const client = new Client(`127.0.0.1:${node.port(plugin)}`, credentials.createInsecure(), { 'grpc.max_receive_message_length': -1 })
  t.teardown(() => client.close())
  t.equal(await call(client, first.method, first.messages(0).map(bytesOf), new Metadata()), 0)
  for (const [name, each] of Object.entries(families)) {
    const codes = new Set<number>()
    await grows(t, name, { bytes: each.bytes ?? BYTES }, async (bytes) => {
      const messages = each.messages(bytes).map(bytesOf)
      const metadata = each.metadata?.(bytes) ?? new Metadata()
      return processorMsOf(async () => codes.add(await call(client, each.method, messages, metadata)))
    })
    t.same(
      [...codes].filter((code) => FAULTS.has(code)),
      [],
      `${name}: status ${[...codes]}`,
    )
  }
}

const same = (bytes: Buffer): Buffer => bytes

function call(client: Client, method: string, messages: readonly Buffer[], metadata: Metadata): Promise<number> {
  return new Promise((resolve) => {
    const sent = client.makeBidiStreamRequest(method, same, same, metadata, { deadline: Date.now() + ANSWER_MS })
    sent.on('data', () => {})
    sent.on('error', () => {})
    sent.on('status', ({ code }) => resolve(code))
    for (const each of messages) sent.write(each)
    sent.end()
  })
}
