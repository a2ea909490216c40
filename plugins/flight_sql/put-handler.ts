/** DoPut: its first message says what the stream is for, a bulk write or the values of a prepared statement. */
import type { RecordBatch } from 'apache-arrow'
import { type CallContext, type Counter, requireStanding, type SqlParameter, type Svc } from 'svcdb'
import { ArrowReader, type ReadLimits } from 'svcdb/lib/arrow'
import { SvcError } from 'svcdb/lib/errors'
import type { GrpcCall, SendMessage } from 'svcdb/lib/grpc'
import { backfillOf } from './app-metadata.ts'
import { catalogOf } from './catalogue.ts'
import { type Command, readCommand } from './commands.ts'
import type { FlightSqlConfig } from './config.ts'
import { CMD, type FlightData, type FlightDescriptor, PATH, readFlightData, writePreparedResult, writeUpdateResult } from './messages.ts'
import { parametersOf } from './parameters.ts'
import { type PutLimits, PutStream, type PutTarget } from './put-stream.ts'
import type { Statements } from './statements.ts'
import { ingestTarget, measurementOf } from './target.ts'

/** What an engine can be set to take at most (`database.max_tags_per_series`), and the time. */
const OTHER_COLUMNS = 1025
const RESOURCE = '/arrow.flight.protocol.FlightService/DoPut'

export class PutHandler {
  private readonly svc: Svc
  private readonly config: FlightSqlConfig
  private readonly statements: Statements
  private readonly points: Counter
  private readonly limits: ReadLimits

  /** @param points counts those written. */
  constructor(svc: Svc, config: FlightSqlConfig, statements: Statements, points: Counter) {
    this.svc = svc
    this.config = config
    this.statements = statements
    const maxColumns = config.max_fields_per_point + OTHER_COLUMNS
    this.limits = { maxColumns, maxRows: config.max_batch_rows, maxBytes: config.max_decompressed_bytes }
    this.points = points
  }

  /** The method itself is public: whether it reads or writes is known with the first message, which is taken from callers with credentials only. */
  async doPut(requests: AsyncIterable<Uint8Array>, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { context, require } = await this.svc.auth.admitCaller(call.credentials, 'write', RESOURCE)
    const messages = flightData(requests)
    const first = await messages.next()
    if (first.done === true) throw new SvcError('BAD_REQUEST', 'cannot put: the stream is empty; its first message has a descriptor and the schema')
    // It may come at any time.
    requireStanding(context, this.svc.clock.now())
    const command = commandOf(first.value.descriptor)
    if (command.kind === 'prepared_query') {
      await require('read')
      const parameters = await parametersFrom(first.value, messages, this.limits, call)
      this.statements.bind(command.handle, parameters, context)
      return send(writePreparedResult(Buffer.from(command.handle)))
    }
    await require('write')
    const write = async () => this.write(await this.targetOf(command, context), context, first.value, messages, call)
    await send(writeUpdateResult(await this.svc.ingest.attempt(context, write)))
  }

  private async targetOf(command: Command, context: CallContext): Promise<PutTarget> {
    switch (command.kind) {
      case 'update':
        return { measurement: measurementOf(command.query) }
      case 'prepared_update': {
        const { query, update } = this.statements.get(command.handle, context)
        // A query is no name: this says so in the words it deserves.
        return { measurement: update ? measurementOf(query) : notAnUpdate(query) }
      }
      case 'ingest': {
        const { dataNamespace } = context
        const [known] = await this.svc.storage.measurements(dataNamespace, command.ingest.table)
        return ingestTarget(command.ingest, catalogOf(dataNamespace), (name) => name === known?.name)
      }
      default:
        throw new SvcError('BAD_REQUEST', `cannot put a command of kind ${command.kind}: send an update or an ingest with the record batches to write`)
    }
  }

  private async write(
    target: PutTarget,
    context: CallContext,
    first: FlightData,
    more: AsyncIterable<FlightData>,
    call: GrpcCall<CallContext>,
  ): Promise<number> {
    const limits: PutLimits = {
      maxFields: this.config.max_fields_per_point,
      maxTextBytes: this.config.max_decompressed_bytes,
      maxInFlight: this.config.max_batches_in_flight,
      maxHeldBytes: this.config.max_receive_bytes,
      maxWaitMs: this.config.backpressure_wait_secs * 1000,
    }
    const stands = this.svc.auth.standing(context, 'write', RESOURCE)
    let reader: ArrowReader | undefined
    let stream: PutStream | undefined
    let early: boolean | undefined
    for await (const { header, body, appMetadata, message } of following(first, more)) {
      await stands()
      const backfill = backfillOf(appMetadata)
      early ??= backfill
      if (backfill !== undefined) await stream?.decide(backfill)
      if (header.length === 0) continue
      if (reader === undefined || stream === undefined) {
        reader = new ArrowReader(header, this.limits)
        stream = new PutStream(this.svc, context, reader.schema, target, limits, this.points, call)
        if (early !== undefined) await stream.decide(early)
        continue
      }
      const batch = await readKept(reader, header, body, call)
      if (batch !== undefined) await stream.add(batch, message)
    }
    if (stream === undefined)
      throw new SvcError('BAD_REQUEST', `cannot write into "${target.measurement.slice(0, 256)}": the stream has no schema; put record batches with the points`)
    return stream.end()
  }
}

function notAnUpdate(query: string): never {
  throw new SvcError('SQL_ERROR', `cannot run "${query.slice(0, 100)}" as an update: it is a query; run it as one`)
}

function commandOf(descriptor: FlightDescriptor | undefined): Command {
  if (descriptor?.type === CMD) return readCommand(descriptor.cmd)
  if (descriptor?.type !== PATH || descriptor.path.length !== 1)
    throw new SvcError('BAD_REQUEST', 'cannot put: the first message has no descriptor with a command, or with a path of one part, the name of a measurement')
  return { kind: 'update', query: `"${descriptor.path[0].replaceAll('"', '""')}"` }
}

async function parametersFrom(first: FlightData, more: AsyncIterable<FlightData>, limits: ReadLimits, call: GrpcCall<CallContext>): Promise<SqlParameter[]> {
  let reader: ArrowReader | undefined
  let rows = 0
  let row: RecordBatch | undefined
  for await (const { header, body } of following(first, more)) {
    if (header.length === 0) continue
    if (reader === undefined) {
      reader = new ArrowReader(header, limits)
      continue
    }
    const batch = await readKept(reader, header, body, call)
    rows += batch?.numRows ?? 0
    if (batch?.numRows === 1) row = batch
  }
  if (reader === undefined) throw new SvcError('BAD_REQUEST', 'cannot bind values: the stream has no schema')
  if (reader.schema.fields.length === 0) return []
  if (rows !== 1 || row === undefined)
    throw new SvcError('BAD_REQUEST', `cannot bind ${rows} rows of values: a query is run with one; bind and run them one after the other`)
  return parametersOf(reader.schema, row)
}

/** The dictionaries stay for as long as the stream, however long its client is silent. */
async function readKept(reader: ArrowReader, header: Uint8Array, body: Uint8Array, call: GrpcCall<CallContext>): Promise<RecordBatch | undefined> {
  const before = reader.held
  const batch = await reader.read(header, body)
  call.keep(reader.held - before)
  return batch
}

async function* flightData(requests: AsyncIterable<Uint8Array>): AsyncGenerator<FlightData> {
  for await (const request of requests) yield readFlightData(request)
}

async function* following<T>(first: T, more: AsyncIterable<T>): AsyncGenerator<T> {
  yield first
  yield* more
}
