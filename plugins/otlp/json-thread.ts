/**
 * OTLP/JSON to protobuf. JSON.parse cannot be interrupted, so bodies that are not small are read by a thread of their own, one after the other.
 * It takes a second for some of them: namespaces take turns, and what nobody waits for any more is not read.
 *
 * Invariants: the thread has one body at a time; what it was at when it failed is refused, the others are read by the next thread.
 */
import { Worker } from 'node:worker_threads'
import { type ErrorCode, SvcError } from 'svcdb/lib/errors'
import { OwnerQueue } from 'svcdb/lib/event-loop'
import { moduleUrl } from 'svcdb/lib/modules'
import { messageOfJson } from './json-request.ts'

/** Below this, sending a body there and back costs more than it saves. */
const SMALL = 32 * 1024
/** Of what JSON.parse makes: some hundred bytes a member, of which a body has a bounded number. */
const HEAP_MB = 1024
/** At its bound a thread has 16 MiB more for the collection under way, or V8 ends the process: what the young generation holds has to find room there. */
const YOUNG_MB = 12
/** Bytes of one namespace's bodies that wait for the thread. */
const MAX_WAITING = 64 * 1024 * 1024

/** Who has sent a body. */
export interface Sender {
  namespace: string
  /** Why nobody waits for it any more: asked before the thread is given it. */
  ended?(): Error | undefined
}

export type FromJsonWorker = { message: Uint8Array<ArrayBuffer> } | { code: ErrorCode; text: string }

interface Job {
  body: ArrayBuffer
  sender: Sender
  resolve(message: Uint8Array): void
  reject(error: Error): void
}

export class JsonThread {
  private worker: Worker | undefined
  private readonly maxWaiting: number
  private readonly waiting = new OwnerQueue<Job>()
  private current: Job | undefined
  private stopped = false

  constructor(maxWaiting: number = MAX_WAITING) {
    this.maxWaiting = maxWaiting
  }

  /** @param body may be used again once this has returned. @throws BAD_REQUEST, also later; BACKPRESSURE when as much as may waits already. */
  convert(body: Buffer, sender: Sender): Uint8Array | Promise<Uint8Array> {
    if (body.length < SMALL) return messageOfJson(body)
    const { namespace } = sender
    const bytes = this.waiting.of(namespace).reduce((sum, job) => sum + job.body.byteLength, 0)
    if (bytes > 0 && bytes + body.length > this.maxWaiting)
      throw new SvcError('BACKPRESSURE', `cannot read the body: ${bytes} bytes of JSON wait to be read; send it again, or protobuf`)
    const copy = new ArrayBuffer(body.length)
    new Uint8Array(copy).set(body)
    return new Promise((resolve, reject) => {
      this.waiting.push(namespace, { body: copy, sender, resolve, reject })
      this.next()
    })
  }

  async stop(): Promise<void> {
    this.stopped = true
    await this.worker?.terminate()
  }

  private next(): void {
    while (this.current === undefined) {
      const job = this.waiting.shift()
      if (job === undefined) return
      const reason = this.stopped ? stopping() : job.sender.ended?.()
      if (reason !== undefined) {
        job.reject(reason)
        continue
      }
      try {
        this.worker ??= this.start()
      } catch (error) {
        job.reject(noThread(error as Error))
        continue
      }
      this.current = job
      this.worker.postMessage(job.body, [job.body])
    }
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
    let failure: NodeJS.ErrnoException | undefined
    // It has a close behind it.
    worker.on('error', (error) => {
      failure = error
    })
    worker.on('exit', () => {
      this.worker = undefined
      const tooMuch = () => new SvcError('BAD_REQUEST', 'cannot read the body as JSON: it takes too much memory; send smaller batches, or protobuf')
      const error = this.stopped ? stopping() : failure?.code === 'ERR_WORKER_INIT_FAILED' ? noThread(failure) : tooMuch()
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

/** The system has none to give, or no file handles for it. */
function noThread(cause: Error): SvcError {
  const text = `cannot read the body: a thread to read it cannot be started (${cause.message}); send it again, or protobuf`
  return new SvcError('OVERLOADED', text, { cause, headers: { 'retry-after': '5' } })
}

function stopping(): SvcError {
  return new SvcError('BACKPRESSURE', 'cannot read the body: the node is stopping; send it again')
}
