/** DoAction: prepared statements, cancelling, sessions. What there is none of, transactions first of all, is refused as UNIMPLEMENTED: drivers look for that. */
import type { CallContext } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'
import { type GrpcCall, GrpcStatusError, type SendMessage, UNIMPLEMENTED } from 'svcdb/lib/grpc'
import { ProtobufWriter } from 'svcdb/lib/protobuf'
import { catalogOf } from './catalogue.ts'
import { handleOf, readAny, readCommand, readText, writeAny } from './commands.ts'
import { eachField, firstBytes, readAction, ticketsOf, wrapBytes, writeActionType } from './messages.ts'
import { readBytes, readEntry, readString } from './protobuf-text.ts'
import { type Queries, wantsDictionaries } from './queries.ts'
import type { Sessions } from './sessions.ts'
import type { Statements } from './statements.ts'
import { isMeasurement, SCHEMA } from './target.ts'

const CANCELLED = 1
const CLOSED = 1
/** SetSessionOptionsResult.ErrorValue. */
const INVALID_NAME = 1
const INVALID_VALUE = 2

interface Action {
  description: string
  /** @returns bodies of the results. */
  run(body: Uint8Array, call: GrpcCall<CallContext>): Uint8Array[] | Promise<Uint8Array[]>
}

export class Actions {
  private readonly queries: Queries
  private readonly statements: Statements
  private readonly sessions: Sessions
  private readonly actions: Record<string, Action> = {
    CreatePreparedStatement: { description: 'Prepares a statement', run: (body, call) => this.prepare(body, call) },
    ClosePreparedStatement: {
      description: 'Closes a prepared statement',
      run: (body, { context }) => {
        this.statements.close(handleOf(unwrap(body, 'ActionClosePreparedStatementRequest')), context)
        return []
      },
    },
    CancelFlightInfo: {
      description: 'Ends a query that is being answered',
      run: (body, call) => {
        this.cancel(firstBytes(body), call)
        return [number(CANCELLED)]
      },
    },
    CancelQuery: {
      description: 'Ends a query that is being answered; the older form of CancelFlightInfo',
      run: (body, call) => {
        this.cancel(firstBytes(unwrap(body, 'ActionCancelQueryRequest')), call)
        return [writeAny('ActionCancelQueryResult', number(CANCELLED))]
      },
    },
    CloseSession: {
      description: 'Ends the login that the call came with',
      run: (_, call) => {
        this.sessions.close((name) => call.metadata(name))
        return [number(CLOSED)]
      },
    },
    SetSessionOptions: { description: 'Takes the catalog and the schema that there are; nothing else can be set', run: setOptions },
    GetSessionOptions: {
      description: 'Tells the catalog and the schema',
      run: (_, { context }) => [writeOptions({ catalog: catalogOf(context.dataNamespace), schema: SCHEMA })],
    },
  }

  constructor(queries: Queries, statements: Statements, sessions: Sessions) {
    this.queries = queries
    this.statements = statements
    this.sessions = sessions
  }

  async run(request: Uint8Array, call: GrpcCall<CallContext>, send: SendMessage): Promise<void> {
    const { type, body } = readAction(request)
    const action = Object.hasOwn(this.actions, type) ? this.actions[type] : undefined
    if (action === undefined) throw new GrpcStatusError(UNIMPLEMENTED, refusal(type))
    for (const result of await action.run(body, call)) await send(wrapBytes(result))
  }

  async list(send: SendMessage): Promise<void> {
    for (const [type, { description }] of Object.entries(this.actions)) await send(writeActionType(type, description))
  }

  private async prepare(body: Uint8Array, call: GrpcCall<CallContext>): Promise<Uint8Array[]> {
    const query = readText(unwrap(body, 'ActionCreatePreparedStatementRequest'))
    const dictionaries = wantsDictionaries(call)
    const update = isMeasurement(query)
    const schemas = update ? undefined : await this.queries.describe({ query, parameters: undefined, dictionaries }, call)
    const handle = this.statements.create({ query, update, dictionaries }, call.context)
    const out = new ProtobufWriter()
    out.string(1, handle)
    if (schemas !== undefined) {
      out.blob(2, schemas.schema)
      out.blob(3, schemas.parameterSchema)
    }
    out.int(4, update ? 1 : 0)
    return [writeAny('ActionCreatePreparedStatementResult', out.take())]
  }

  private cancel(info: Uint8Array, { context }: GrpcCall<CallContext>): void {
    let found = false
    for (const ticket of ticketsOf(info)) {
      const command = readCommand(ticket)
      if (command.kind === 'ticket' && this.queries.cancel(command.ticket.id, context)) found = true
    }
    if (!found) throw new SvcError('NOT_FOUND', 'cannot cancel the query: it is not being answered; it has ended, or its ticket was not redeemed yet')
  }
}

/** Bodies of Flight SQL's own actions are an Any. */
function unwrap(body: Uint8Array, name: string): Uint8Array {
  const any = readAny(body)
  if (any.name !== name) throw new SvcError('BAD_REQUEST', `cannot run the action: its body is "${any.url.slice(0, 200)}", not ${name}`)
  return any.value
}

function refusal(type: string): string {
  const shown = JSON.stringify(type.slice(0, 100))
  if (/Transaction|Savepoint/.test(type)) return `cannot run the action ${shown}: there are no transactions; each write is whole by itself`
  if (type.includes('Substrait')) return `cannot run the action ${shown}: Substrait plans are not supported; send the statement as SQL`
  return `cannot run the action ${shown}: there is none of this name; ListActions tells those there are`
}

/** A message whose field 1 is an enum. */
function number(value: number): Uint8Array {
  const out = new ProtobufWriter()
  out.int(1, value)
  return out.take()
}

/** Sets nothing, as there is one catalog and one schema: naming them is no fault. */
function setOptions(body: Uint8Array, { context }: GrpcCall<CallContext>): Uint8Array[] {
  const allowed: Record<string, readonly string[]> = { catalog: ['', catalogOf(context.dataNamespace)], schema: ['', SCHEMA] }
  const out = new ProtobufWriter()
  eachField(body, (reader) => {
    if (reader.field !== 1) return false
    const [name, value] = readEntry<string | undefined>(reader, '', (member) => optionText(readBytes(member)))
    const known = Object.hasOwn(allowed, name) ? allowed[name] : undefined
    if (known !== undefined && value !== undefined && known.includes(value)) return true
    const entry = out.open(1)
    out.string(1, name)
    out.blob(2, number(known === undefined ? INVALID_NAME : INVALID_VALUE))
    out.close(entry)
    return true
  })
  return [out.take()]
}

/** A SessionOptionValue: its text, empty when it has no value, undefined when it has another kind of value. */
function optionText(bytes: Uint8Array): string | undefined {
  let text: string | undefined = ''
  eachField(bytes, (reader) => {
    text = undefined
    if (reader.field !== 1) return false
    text = readString(reader)
    return true
  })
  return text
}

function writeOptions(options: Record<string, string>): Uint8Array {
  const out = new ProtobufWriter()
  for (const [name, value] of Object.entries(options)) {
    const entry = out.open(1)
    out.string(1, name)
    const inner = out.open(2)
    out.string(1, value)
    out.close(inner)
    out.close(entry)
  }
  return out.take()
}
