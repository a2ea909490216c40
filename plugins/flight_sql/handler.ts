/** The methods of `arrow.flight.protocol.FlightService` that read, over what does the work. */
import type { CallContext, Svc } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import type { GrpcCall, SendMessage } from 'svcdb/lib/grpc'
import { randomName } from './bounded-map.ts'
import { catalogOf, fixedAnswer, schemaMatches, tableTypeMatches } from './catalogue.ts'
import { type Command, readCommand, type TableFilter, writeTicket } from './commands.ts'
import { influxStatement, isJson } from './influxdb3.ts'
import {
  CMD,
  type FlightDescriptor,
  type FlightInfo,
  firstBytes,
  PATH,
  readBasicAuth,
  readDescriptor,
  readHandshake,
  wrapBytes,
  writeHandshake,
  writeInfo,
  writePollInfo,
} from './messages.ts'
import { type Queries, type Statement, wantsDictionaries } from './queries.ts'
import { type Sessions, withAuthorization } from './sessions.ts'
import type { SqlInfoValue } from './sql-info.ts'
import { ownerOf, type Statements } from './statements.ts'
import { noTables, selectAll, tablesSchema } from './tables-job.ts'

const HANDSHAKE = '/arrow.flight.protocol.FlightService/Handshake'

export interface FlightDependencies {
  queries: Queries
  statements: Statements
  sessions: Sessions
  info: ReadonlyMap<number, SqlInfoValue>
  /** How long the first message of a login may take: nobody is known until then. */
  handshakeMs: number
}

export class FlightHandler {
  private readonly svc: Svc
  private readonly dependencies: FlightDependencies

  constructor(svc: Svc, dependencies: FlightDependencies) {
    this.svc = svc
    this.dependencies = dependencies
  }

  /** A client that logs in by metadata may wait for the answer before it sends anything. */
  async handshake(requests: AsyncIterable<Uint8Array>, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    let { credentials } = call
    if (call.metadata('authorization') === undefined) {
      const first = await this.inTime(requests[Symbol.asyncIterator]().next())
      const basic = first.done === true ? undefined : readBasicAuth(readHandshake(first.value))
      if (basic !== undefined && basic.password !== '') credentials = withAuthorization(credentials, `Bearer ${basic.password}`)
    }
    let owner: string | undefined
    try {
      // What it may do is for each call to say.
      owner = ownerOf((await this.svc.auth.admitCaller(credentials, 'read', HANDSHAKE)).context)
    } catch (error) {
      // Known, and of another namespace, as each call will say. Who it is, is not told: all of them have one share.
      if (!(error instanceof SvcError) || error.code !== 'FORBIDDEN') throw error
    }
    const token = this.dependencies.sessions.open(credentials, owner)
    call.header('authorization', `Bearer ${token}`)
    await send(writeHandshake(token))
  }

  private async inTime<T>(message: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<never>((_, reject) => {
      const error = new SvcError('BAD_REQUEST', 'cannot log in: no message with credentials came in time; send it, or the metadata "authorization"')
      timer = setTimeout(() => reject(error), this.dependencies.handshakeMs)
    })
    message.catch(() => {}) // it fails when the call ends
    try {
      return await Promise.race([message, late])
    } finally {
      clearTimeout(timer)
    }
  }

  async getFlightInfo(request: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array> {
    return writeInfo(await this.flightInfo(readDescriptor(request), call))
  }

  async pollFlightInfo(request: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array> {
    return writePollInfo(await this.flightInfo(readDescriptor(request), call))
  }

  async getSchema(request: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array> {
    return wrapBytes((await this.flightInfo(readDescriptor(request), call)).schema)
  }

  async doGet(request: Uint8Array, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { queries } = this.dependencies
    const ticket = firstBytes(request)
    if (isJson(ticket)) return queries.run('', { ...influxStatement(ticket, call.context), dictionaries: wantsDictionaries(call) }, call, send)
    const command = readCommand(ticket)
    switch (command.kind) {
      case 'ticket': {
        const { id, query, prepared, dictionaries } = command.ticket
        return queries.run(id, { ...(prepared === '' ? { query, parameters: undefined } : this.prepared(prepared, call)), dictionaries }, call, send)
      }
      case 'query':
        return queries.run('', { query: command.query, parameters: undefined, dictionaries: wantsDictionaries(call) }, call, send)
      case 'prepared_query':
        return queries.run('', this.prepared(command.handle, call), call, send)
      case 'tables':
        return this.tables(command.filter, call, send)
    }
    const answer = this.fixed(command, call) ?? wrongMethod(command)
    for (const message of answer.messages) await send(message)
  }

  /** An expression is a LIKE pattern of names. */
  async listFlights(request: Uint8Array, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const expression = Buffer.from(firstBytes(request)).toString('utf8')
    const { dataNamespace: namespace } = call.context
    const namePattern = expression === '' ? undefined : expression
    const args = { namespace, catalog: catalogOf(namespace), namePattern, includeSchema: false, flights: true }
    await this.dependencies.queries.tables(args, call, send)
  }

  private async flightInfo(descriptor: FlightDescriptor, call: GrpcCall<CallContext>): Promise<FlightInfo> {
    const command = commandOf(descriptor)
    switch (command.kind) {
      case 'query': {
        const statement = { query: command.query, parameters: undefined, dictionaries: wantsDictionaries(call) }
        return this.statementInfo(descriptor, statement, '', call)
      }
      case 'prepared_query':
        return this.statementInfo(descriptor, this.prepared(command.handle, call), command.handle, call)
      case 'tables':
        return { schema: tablesSchema(command.filter.includeSchema), descriptor, ticket: descriptor.cmd }
    }
    const { schema } = this.fixed(command, call) ?? wrongMethod(command)
    return { schema, descriptor, ticket: descriptor.cmd }
  }

  private async statementInfo(descriptor: FlightDescriptor, statement: Statement, prepared: string, call: GrpcCall<CallContext>): Promise<FlightInfo> {
    const { schema } = await this.dependencies.queries.describe(statement, call)
    const { query, dictionaries } = statement
    return { schema, descriptor, ticket: writeTicket({ id: randomName(), query: prepared === '' ? query : '', prepared, dictionaries }) }
  }

  private prepared(handle: string, { context }: GrpcCall<CallContext>): Statement {
    const statement = this.dependencies.statements.get(handle, context)
    if (statement.update)
      throw new SvcError('BAD_REQUEST', `cannot query the prepared statement "${statement.query.slice(0, 100)}": it names a measurement to write to`)
    return statement
  }

  private fixed(command: Command, { context }: GrpcCall<CallContext>) {
    return fixedAnswer(command, catalogOf(context.dataNamespace), this.dependencies.info)
  }

  private async tables(
    { catalog: wanted, schemaPattern, namePattern, types, includeSchema }: TableFilter,
    call: GrpcCall<CallContext>,
    send: SendMessage,
  ): Promise<void> {
    const { dataNamespace: namespace } = call.context
    const catalog = catalogOf(namespace)
    if (!schemaMatches(catalog, wanted, schemaPattern) || !tableTypeMatches(types)) {
      for (const message of noTables(includeSchema)) await send(message)
      return
    }
    await this.dependencies.queries.tables({ namespace, catalog, namePattern, includeSchema, flights: false }, call, send)
  }
}

/** A path is a measurement's name, which stands for all its points. */
function commandOf({ type, cmd, path }: FlightDescriptor): Command {
  if (type === CMD) return readCommand(cmd)
  if (type !== PATH || path.length !== 1)
    throw new SvcError('BAD_REQUEST', 'cannot read the descriptor: it has neither a command nor a path of one part, the name of a measurement')
  return { kind: 'query', query: selectAll(path[0]) }
}

function wrongMethod({ kind }: Command): never {
  throw new SvcError(
    'BAD_REQUEST',
    `cannot answer the command: it is of kind ${kind}, which is for DoPut; get flight info with a query or a command of the catalogue`,
  )
}
