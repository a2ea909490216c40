/**
 * Bytes of request bodies that are here, as they arrived or decompressed, by namespace.
 *
 * Invariants
 * - A namespace may have the capacity without half of what the others have: all of it when it is alone, half of it beside one that has all. So together they
 *   have less than twice the capacity, and none can keep the others out.
 * - A body that is the only one is taken whatever its size, which has limits of its own: else one that is larger than the capacity would be sent for ever.
 * - What a hold has is given back once: when its request is answered, or its connection gone, and neither reading nor a handler is at it any more.
 *   Until then the request has its body, and answers behind one that is slow wait for it.
 */
import { SvcError } from '../lib/errors/index.ts'

/** Below this a body is not counted: its request takes about as much beside it. */
export const SMALLEST_COUNTED = 8 * 1024

/** What a hold has to know of a socket. */
export interface Connection {
  destroyed?: boolean
  once(event: 'close', listener: () => void): unknown
}

export class BodyMemory {
  /** Of all namespaces. */
  total = 0
  private readonly capacity: number
  private readonly held = new Map<string, number>()
  /** Those that have something, by connection: requests that come one after the other share one. */
  private readonly connections = new WeakMap<Connection, Set<BodyHold>>()

  constructor(capacity: number) {
    this.capacity = capacity
  }

  /** @param connection what the request came by: when it closes, nobody waits for the answer. */
  open(namespace: string, connection?: Connection): BodyHold {
    return new BodyHold(this, namespace, connection)
  }

  /** @param alone what the body that asks has already. */
  fits(namespace: string, bytes: number, alone: number): boolean {
    const own = this.held.get(namespace) ?? 0
    return own + bytes <= this.capacity - (this.total - own) / 2 || this.total === alone
  }

  add(namespace: string, bytes: number): void {
    const own = (this.held.get(namespace) ?? 0) + bytes
    this.total += bytes
    if (own === 0) this.held.delete(namespace)
    else this.held.set(namespace, own)
  }

  watch(connection: Connection, hold: BodyHold): void {
    const known = this.connections.get(connection)
    if (known !== undefined) return void known.add(hold)
    const holds = new Set([hold])
    this.connections.set(connection, holds)
    connection.once('close', () => {
      for (const each of holds) each.answered()
    })
  }

  unwatch(connection: Connection, hold: BodyHold): void {
    this.connections.get(connection)?.delete(hold)
  }
}

/** What one request has. */
export class BodyHold {
  bytes = 0
  private readonly memory: BodyMemory
  readonly namespace: string
  private readonly connection: Connection | undefined
  /** Who is at the body: its reading, or a handler. */
  private users = 0
  private over = false

  constructor(memory: BodyMemory, namespace: string, connection: Connection | undefined) {
    this.memory = memory
    this.namespace = namespace
    this.connection = connection
  }

  /** Why nobody waits for the answer any more, undefined = somebody does. */
  ended(): SvcError | undefined {
    return this.over || this.connection?.destroyed === true ? new SvcError('BAD_REQUEST', 'the connection was closed before the body was read') : undefined
  }

  /** @throws SvcError BACKPRESSURE when bodies have too much; BAD_REQUEST when nobody waits for the answer. */
  take(bytes: number): void {
    const { memory, namespace, connection } = this
    const ended = this.ended()
    if (ended !== undefined) throw ended
    if (!memory.fits(namespace, bytes, this.bytes)) {
      throw new SvcError(
        'BACKPRESSURE',
        'cannot take the body: bodies of other requests have what server.max_body_memory allows; send it again in a moment, send less at once or raise it',
      )
    }
    if (this.bytes === 0 && connection !== undefined) memory.watch(connection, this)
    this.bytes += bytes
    memory.add(namespace, bytes)
  }

  give(bytes: number): void {
    if (bytes === 0) return
    this.bytes -= bytes
    this.memory.add(this.namespace, -bytes)
    if (this.bytes === 0 && this.connection !== undefined) this.memory.unwatch(this.connection, this)
  }

  /** Each has its `end`. @throws SvcError BAD_REQUEST when what was held has gone already, with the connection. */
  begin(): void {
    const ended = this.over ? this.ended() : undefined
    if (ended !== undefined) throw ended
    this.users++
  }

  end(): void {
    this.users--
    if (this.over && this.users === 0) this.give(this.bytes)
  }

  /** The answer was sent, or nobody is there to read it. */
  answered(): void {
    this.over = true
    if (this.users === 0) this.give(this.bytes)
  }
}
