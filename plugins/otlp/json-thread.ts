/**
 * OTLP/JSON to protobuf. JSON.parse cannot be interrupted, so bodies that are not small are read by a thread of their own, one after the other.
 *
 * Invariants: the thread has one body at a time; what it was at when it failed is refused, the others are read by the next thread.
 */
import { Worker } from 'node:worker_threads'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { moduleUrl } from 'svcdb/lib/modules'
import { messageOfJson } from './json-request.ts'

/** Below this, sending a body there and back costs more than it saves. */
const SMALL = 32 * 1024
/** Of what JSON.parse makes: some hundred bytes a member, of which a body has a bounded number. */
const HEAP_MB = 1024
/** At its bound a thread has 16 MiB more for the collection under way, or V8 ends the process: what the young generation holds has to find room there. */
const YOUNG_MB = 12

export type FromJsonWorker = { message: Uint8Array<ArrayBuffer> } | { code: ErrorCode; text: string }

interface Job {
  body: ArrayBuffer
  resolve(message: Uint8Array): void
  reject(error: Error): void
}

export class JsonThread {
  private worker: Worker | undefined
  private readonly waiting: Job[] = []
  private current: Job | undefined
  private stopped = false

  /** @param body may be used again once this has returned. @throws BAD_REQUEST, also later. */
  convert(body: Buffer): Uint8Array | Promise<Uint8Array> {
    if (body.length < SMALL) return messageOfJson(body)
    const copy = new ArrayBuffer(body.length)
    new Uint8Array(copy).set(body)
    return new Promise((resolve, reject) => {
      this.waiting.push({ body: copy, resolve, reject })
      this.next()
    })
  }

  async stop(): Promise<void> {
    this.stopped = true
    await this.worker?.terminate()
  }

  private next(): void {
    if (this.current !== undefined) return
    const job = this.waiting.shift()
    if (job === undefined) return
    if (this.stopped) return job.reject(new SvcError('BACKPRESSURE', 'cannot read the body: the node is stopping; send it again'))
    this.current = job
    this.worker ??= this.start()
    this.worker.postMessage(job.body, [job.body])
  }

  private start(): Worker {
    const worker = new Worker(moduleUrl('./json-worker.ts', import.meta.url), {
      name: 'svc-otlp-json',
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, maxYoungGenerationSizeMb: YOUNG_MB },
    })
    worker.unref()
    worker.on('message', (answer: FromJsonWorker) => {
      if ('message' in answer) this.settle((job) => job.resolve(answer.message))
      else this.settle((job) => job.reject(new SvcError(answer.code, answer.text)))
    })
    // It has a close behind it.
    worker.on('error', () => {})
    worker.on('exit', () => {
      this.worker = undefined
      const error = new SvcError('BAD_REQUEST', 'cannot read the body as JSON: it takes too much memory; send smaller batches, or protobuf')
      this.settle((job) => job.reject(error))
    })
    return worker
  }

  private settle(end: (job: Job) => void): void {
    const { current } = this
    this.current = undefined
    if (current !== undefined) end(current)
    this.next()
  }
}
