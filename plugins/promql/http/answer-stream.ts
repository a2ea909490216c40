/** An answer's bytes on their way out of a job: in chunks, within a limit. A failure before the first chunk still gets a status of its own. */
import type { JobIo } from 'svcdb'
import { Pacer } from '../eval/context.ts'
import { apiError } from './api-error.ts'
import { JsonWriter } from './json-writer.ts'

/** Bytes gathered before they are handed over: the first soon, later ones in larger chunks, each of which costs the main thread a round. */
const FIRST_CHUNK_BYTES = 64 * 1024
const CHUNK_BYTES = 256 * 1024
/** What a chunk counts to a pacer: each is worth a look at the clock. */
const CHUNK_CELLS = 4096

export class AnswerStream {
  readonly json = new JsonWriter()
  private readonly io: JobIo
  private readonly maxBytes: number
  /** What is written was written before, for its size, and is within the limit; warnings behind it do not count. */
  private fits = false

  /** @param maxBytes server.prom_max_result_bytes. */
  constructor(io: JobIo, maxBytes: number) {
    this.io = io
    this.maxBytes = maxBytes
  }

  /** To be looked at after every chunk of some size; when it says yes, await `flush`. */
  get full(): boolean {
    return this.json.length >= (this.json.taken === 0 ? FIRST_CHUNK_BYTES : CHUNK_BYTES)
  }

  async flush(): Promise<void> {
    if (!this.fits) this.expect(0)
    await this.io.emit(this.json.take())
  }

  /** Refuses an answer that will have at least so many bytes more. @throws execution. */
  expect(bytes: number): void {
    if (this.json.total + bytes > this.maxBytes)
      throw apiError(
        'execution',
        `cannot answer the query: its result is larger than ${this.maxBytes} bytes; ask for fewer series or steps, or raise server.prom_max_result_bytes`,
      )
  }

  /**
   * Writes what is of so many bytes at most, as far as is known. Where that is above the limit it is written twice, for its size first: a failure after the first bytes can only break the
   * connection off. @throws execution.
   */
  async sized<T>(mostBytes: number, write: (out: AnswerStream) => Promise<T>): Promise<T> {
    if (this.json.total + mostBytes > this.maxBytes) {
      const { signal } = this.io
      const pacer = new Pacer(signal)
      const emit = async (): Promise<void> => {
        if (pacer.due(CHUNK_CELLS)) await pacer.pause()
      }
      const trial = new AnswerStream({ signal, emit }, this.maxBytes)
      trial.json.taken = this.json.total
      await write(trial)
      trial.expect(0)
      trial.json.close()
      this.fits = true
    }
    return await write(this)
  }

  /** `"warnings":[..],"infos":[..]` behind the data, each only when there are any, and the end. */
  async end(warnings: readonly string[], infos: readonly string[]): Promise<void> {
    this.texts('warnings', warnings)
    this.texts('infos', infos)
    this.json.raw('}')
    await this.flush()
    this.json.close()
  }

  private texts(name: string, texts: readonly string[]): void {
    if (texts.length === 0) return
    this.json.raw(`,"${name}":[`)
    for (const [i, text] of texts.entries()) {
      if (i > 0) this.json.raw(',')
      this.json.string(text)
    }
    this.json.raw(']')
  }
}
