/** Dead letters that a source takes again, when what kept them out is mended. */
import { SvcError } from '../errors/index.ts'
import type { Source } from './source.ts'

/** What became of dead letters that were read again. */
export interface Replayed {
  messages: number
  /** Those that are dead letters anew. */
  failed: number
  /** Lines of the file that cannot be read, where there are any; they are kept. */
  damaged?: number
}

/** Gives one letter to the source; resolves when it is durable, or a dead letter anew. @param body is given what counts failures. */
export type GiveAgain<B> = (body: (replayed: Replayed) => B, bytes: number) => Promise<void>

/** The number of letters that cannot be read; nothing where it is not known. */
// biome-ignore lint/suspicious/noConfusingVoidType: what a function without a return gives
export type Unread = number | void

/** The dead letters of one source, given to it again: one run at a time. */
export class Replay<B> {
  private readonly name: string
  private readonly source: Source<B>
  private running = false
  /** Letters wait for room one after the other: those that waited together would all find the same room. */
  private entered: Promise<void> = Promise.resolve()

  constructor(name: string, source: Source<B>) {
    this.name = name
    this.source = source
  }

  /** @param read gives all letters that there are; @throws SvcError CONFLICT while one runs, and what a letter was returned with. */
  async run(read: (give: GiveAgain<B>) => Promise<Unread>): Promise<Replayed> {
    if (this.running) throw new SvcError('CONFLICT', `cannot read the dead letters of "${this.name}" again: they are being read`)
    this.running = true
    const replayed: Replayed = { messages: 0, failed: 0 }
    try {
      const damaged = await read(async (body, bytes) => {
        const { promise, resolve, reject } = Promise.withResolvers<void>()
        const enter = async (): Promise<void> => {
          await this.source.room()
          void this.source.take({ body: body(replayed), bytes, ack: resolve, nack: reject })
        }
        this.entered = this.entered.then(enter).catch(reject)
        await promise
        replayed.messages++
      })
      if (typeof damaged === 'number' && damaged > 0) replayed.damaged = damaged
    } finally {
      this.running = false
    }
    return replayed
  }
}
