/**
 * Requests and answers over a message channel, as to another machine: everything is copied, and of several requests under way any may be answered first.
 * Changes keep their order; of other requests any may be handled first.
 */
import { setImmediate } from 'node:timers/promises'
import { MessageChannel, type MessagePort } from 'node:worker_threads'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'

/** Turns of the loop that a message takes at most. */
const MAX_TURNS = 4

interface Fault {
  code: ErrorCode | undefined
  message: string
  detail: Record<string, unknown> | undefined
  headers: Record<string, string> | undefined
}

type Reply = { id: number; value: unknown } | { id: number; fault: Fault }
/** Requests that take effect in the order of the calls. */
const CHANGES = new Set(['write', 'declareField', 'delete', 'drop', 'restore', 'changes', 'forget changes'])

export type Handle = (kind: string, body: unknown) => unknown

export class Client {
  private readonly port: MessagePort
  private readonly waiting = new Map<number, PromiseWithResolvers<unknown>>()
  private next = 0

  constructor(port: MessagePort) {
    this.port = port
    port.on('message', (reply: Reply) => {
      const asked = this.waiting.get(reply.id)
      this.waiting.delete(reply.id)
      if ('fault' in reply) asked?.reject(errorOf(reply.fault))
      else asked?.resolve(reply.value)
    })
  }

  ask<T>(kind: string, body: unknown): Promise<T> {
    const id = this.next++
    const asked = Promise.withResolvers<unknown>()
    this.waiting.set(id, asked)
    this.port.postMessage({ id, kind, body })
    return asked.promise as Promise<T>
  }

  close(): void {
    this.port.close()
  }
}

/** Connects a client with a server. @param random of 0 to 1: decides who is late. */
export function connect(random: () => number): { client: Client; serve(handle: Handle): void } {
  const { port1, port2 } = new MessageChannel()
  const late = async (): Promise<void> => {
    for (let turn = Math.floor(random() * (MAX_TURNS + 1)); turn > 0; turn--) await setImmediate()
  }
  const answer = async (handle: Handle, { id, kind, body }: { id: number; kind: string; body: unknown }): Promise<void> => {
    if (!CHANGES.has(kind)) await late()
    const reply: Reply = await begun(() => handle(kind, body)).then(
      (value) => ({ id, value }),
      (error) => ({ id, fault: faultOf(error) }),
    )
    await late()
    port2.postMessage(reply)
  }
  const serve = (handle: Handle): void => void port2.on('message', (message) => void answer(handle, message))
  return { client: new Client(port1), serve }
}

async function begun(handle: () => unknown): Promise<unknown> {
  return handle()
}

function faultOf(error: unknown): Fault {
  const { message, code, detail, headers } = error as SvcError
  return { code: error instanceof SvcError ? code : undefined, message, detail, headers }
}

function errorOf({ code, message, detail, headers }: Fault): Error {
  if (code === undefined) return new Error(message)
  return new SvcError(code, message, { ...(detail === undefined ? {} : { detail }), ...(headers === undefined ? {} : { headers }) })
}
