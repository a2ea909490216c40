/** For tests: a node with Flight SQL, a client that speaks in messages, and what it reads as rows. */
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { DataType, type Table, tableFromIPC } from 'apache-arrow'
import type { Plugin } from 'svcdb'
import { frame } from 'svcdb/lib/arrow'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { type BootOptions, boot, type TestNode } from 'svcdb/testkit'
import type { Test } from 'tap'
import line from '../line_protocol/index.ts'
import { writeAny } from './commands.ts'
import plugin from './index.ts'
import { CMD, eachField, PATH, readFlightData } from './messages.ts'
import { readBytes } from './protobuf-text.ts'

export const SERVICE = '/arrow.flight.protocol.FlightService/'
const bytes = (message: Uint8Array): Buffer => Buffer.from(message)

export interface Answer {
  messages: Buffer[]
  error: ServiceError | undefined
  header: Metadata
}

interface FlightNode {
  node: TestNode
  flight: FlightClient
  port: number
  /** Writes line protocol. */
  write(lines: string): Promise<void>
}

/** @param section of [flight_sql]. @param others plugins beside it. */
export async function startFlight(t: Test, options: BootOptions & { section?: Record<string, unknown>; others?: Plugin[] } = {}): Promise<FlightNode> {
  const { section, others = [], ...rest } = options
  let port = 0
  const log = (text: string): void => {
    const entry = JSON.parse(text) as { plugin?: string; name?: string; msg?: string; port?: number }
    if (entry.port !== undefined) port = entry.port
  }
  const config = { ...rest.config, flight_sql: { addr: '127.0.0.1:0', ...section } }
  const node = await boot({ storage: 'embedded', ...rest, plugins: [plugin, line, ...others], config, log })
  const flight = new FlightClient(port)
  t.teardown(async () => {
    flight.close()
    await node.stop()
  })
  const write = async (lines: string): Promise<void> => {
    const written = await node.inject({ method: 'POST', url: '/write', payload: lines, headers: { 'content-type': 'text/plain' } })
    if (written.statusCode !== 204) throw new Error(written.body)
  }
  return { node, flight, port, write }
}

export class FlightClient {
  private readonly client: Client

  constructor(port: number) {
    this.client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), { 'grpc.max_receive_message_length': -1 })
  }

  close(): void {
    this.client.close()
  }

  /** A method that answers once or with a stream: both look the same to a client that collects. */
  call(method: string, request: Uint8Array, metadata: Record<string, string> = {}): Promise<Answer> {
    return collect(this.begin(method, request, metadata))
  }

  /** The call itself, for cancelling. */
  begin(method: string, request: Uint8Array, metadata: Record<string, string> = {}) {
    return this.client.makeServerStreamRequest(SERVICE + method, bytes, bytes, Buffer.from(request), metadataOf(metadata))
  }

  /** A method that takes a stream. @param open leaves the client's side open. */
  put(method: string, requests: readonly Uint8Array[], metadata: Record<string, string> = {}, open = false): Promise<Answer> {
    const call = this.client.makeBidiStreamRequest(SERVICE + method, bytes, bytes, metadataOf(metadata))
    const answer = collect(call)
    call.on('error', () => {}) // told by the answer
    for (const request of requests) call.write(request)
    if (!open) call.end()
    return answer
  }

  /** A DoPut to write to, and its answer. */
  openPut(metadata: Record<string, string> = {}) {
    const call = this.client.makeBidiStreamRequest(`${SERVICE}DoPut`, bytes, bytes, metadataOf(metadata))
    call.on('error', () => {}) // told by the answer
    return { call, answer: collect(call) }
  }

  /** A stream that goes on with the same message until it is ended. */
  putAll(method: string, first: Uint8Array, again: Uint8Array, signal: AbortSignal): Promise<Answer> {
    const call = this.client.makeBidiStreamRequest(SERVICE + method, bytes, bytes, metadataOf({}))
    const answer = collect(call)
    call.write(first)
    const timer = setInterval(() => call.write(again), 10)
    const stop = (): void => clearInterval(timer)
    call.on('error', stop)
    signal.addEventListener('abort', stop, { once: true })
    return answer
  }

  /** GetFlightInfo, then DoGet with its ticket. @throws what the server answers. */
  async read(command: Uint8Array, metadata: Record<string, string> = {}): Promise<{ schema: string[]; rows: Record<string, unknown>[]; table: Table }> {
    const info = infoOf(one(await this.call('GetFlightInfo', descriptor(command), metadata)))
    const answer = await this.call('DoGet', message({ 1: info.tickets[0] }), metadata)
    if (answer.error !== undefined) throw answer.error
    const table = tableOf(answer.messages)
    const schema = table.schema.fields.map(({ name, type }) => `${name}: ${type}`)
    const announced = tableFromIPC(info.schema).schema.fields.map(({ name, type }) => `${name}: ${type}`)
    if (announced.join() !== schema.join()) throw new Error(`the info announces ${announced.join()}, the data has ${schema.join()}`)
    return { schema, rows: rowsOf(table), table }
  }

  sql(query: string, metadata: Record<string, string> = {}) {
    return this.read(command('CommandStatementQuery', { 1: query }), metadata)
  }

  async action(type: string, body: Uint8Array, metadata: Record<string, string> = {}): Promise<Uint8Array[]> {
    const answer = await this.call('DoAction', message({ 1: type, 2: body }), metadata)
    if (answer.error !== undefined) throw answer.error
    return answer.messages.map((result) => field(result, 1) ?? new Uint8Array(0))
  }
}

function metadataOf(values: Record<string, string>): Metadata {
  const metadata = new Metadata()
  for (const [key, value] of Object.entries(values)) metadata.set(key, value)
  return metadata
}

interface Stream {
  on(event: 'metadata', listener: (metadata: Metadata) => void): unknown
  on(event: 'data', listener: (message: Buffer) => void): unknown
  on(event: 'error', listener: (error: ServiceError) => void): unknown
  on(event: 'end', listener: () => void): unknown
}

export function collect(call: Stream): Promise<Answer> {
  return new Promise((resolve) => {
    const answer: Answer = { messages: [], error: undefined, header: new Metadata() }
    call.on('metadata', (header) => {
      answer.header = header
    })
    call.on('data', (data) => answer.messages.push(data))
    call.on('error', (error) => {
      answer.error = error
      resolve(answer)
    })
    call.on('end', () => setImmediate(resolve, answer))
  })
}

/** The only message of an answer. @throws what the server answers. */
export function one(answer: Answer): Buffer {
  if (answer.error !== undefined) throw answer.error
  if (answer.messages.length !== 1) throw new Error(`${answer.messages.length} messages`)
  return answer.messages[0]
}

type Value = undefined | string | number | boolean | Uint8Array | readonly (string | Uint8Array)[]

/** A message of fields by number; integers, text, bytes, and repeated text or bytes. */
export function message(fields: Record<number, Value>): Uint8Array {
  const out = new ProtobufWriter()
  for (const [number, value] of Object.entries(fields)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each === undefined) continue
      if (typeof each === 'string') out.string(Number(number), each)
      else if (each instanceof Uint8Array) out.blob(Number(number), each)
      else out.int(Number(number), Number(each))
    }
  }
  return out.take()
}

export function command(name: string, fields: Record<number, Value> = {}): Uint8Array {
  return writeAny(name, message(fields))
}

/** Of a command, or of a path. */
export function descriptor(of: Uint8Array | string): Uint8Array {
  return typeof of === 'string' ? message({ 1: PATH, 3: of }) : message({ 1: CMD, 2: of })
}

/** The first value of a length-delimited field. */
export function field(bytesOf: Uint8Array, number: number): Uint8Array | undefined {
  let found: Uint8Array | undefined
  eachField(bytesOf, (reader) => {
    if (reader.field !== number || reader.wire !== 2 || found !== undefined) return false
    found = readBytes(reader)
    return true
  })
  return found
}

export function infoOf(info: Uint8Array): { schema: Uint8Array; tickets: Uint8Array[] } {
  const tickets: Uint8Array[] = []
  eachField(info, (reader) => {
    if (reader.field !== 3) return false
    tickets.push(field(field(readBytes(reader), 1) as Uint8Array, 1) as Uint8Array)
    return true
  })
  return { schema: Uint8Array.from(field(info, 1) as Uint8Array), tickets }
}

export function tableOf(messages: readonly Uint8Array[]): Table {
  // The library reads numbers in place: the stream has to begin where a buffer does.
  return tableFromIPC(new Uint8Array(Buffer.concat(messages.map((each) => frame(readFlightData(each))))))
}

/** Times as they lie in memory, in their unit; decimals as their unscaled number. */
export function rowsOf(table: Table): Record<string, unknown>[] {
  const rows: Record<string, unknown>[] = []
  for (const batch of table.batches) {
    for (let row = 0; row < batch.numRows; row++) {
      const out: Record<string, unknown> = {}
      for (const [i, { name, type }] of batch.schema.fields.entries()) {
        const data = batch.data.children[i]
        const raw = DataType.isTimestamp(type) && data.getValid(row)
        const value = raw ? data.values[row] : batch.getChildAt(i)?.get(row)
        out[name] = DataType.isList(type) && value !== null ? [...value] : value
      }
      rows.push(out)
    }
  }
  return rows
}
