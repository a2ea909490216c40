/**
 * Snappy blocks decoded beside the main thread, into shared memory that is used again.
 *
 * The library's thread pool would do it too, but takes new memory for each block and lets go of it late: hundreds of megabytes while blocks of a
 * megabyte come in a row (snappy-block.bench.ts).
 *
 * Invariants: a slot holds one block, from `decode` until it was read; what the thread leaves undone, because it failed or was stopped, the
 * main thread does. The thread starts with the first block that is worth it.
 */
import { Worker } from 'node:worker_threads'
import { moduleUrl } from '../modules/index.ts'
import { checkedLength, fill, SLACK } from './fill.ts'

/** Below this, sending a block there and back costs more than decoding it. */
const SMALLEST = 128 * 1024
/** Larger blocks have no slot: memory that is kept stays bounded. */
const LARGEST = 4 * 1024 * 1024

export interface SlotMemory {
  slot: number
  input: SharedArrayBuffer
  output: SharedArrayBuffer
}

export type ToSnappyWorker = SlotMemory | { slot: number; size: number; length: number }
export type FromSnappyWorker = 'ready' | { slot: number; good: boolean }

interface Slot {
  number: number
  input: Uint8Array
  output: Uint8Array
  /** Bytes of the block, and of what it decodes to. */
  size: number
  length: number
  /** Takes what was decoded; undefined while the slot is free. */
  done: ((decoded: Uint8Array) => unknown) | undefined
  failed: (error: unknown) => void
}

export class SnappyThread {
  private readonly slots: Slot[]
  private readonly free: Slot[]
  private readonly gone: (error: Error) => void
  private worker: Worker | undefined
  private ready = false
  /** Stopped, or failed: it is not started again. */
  private over = false

  /** @param slots blocks at a time. @param gone told when the thread fails. */
  constructor(slots: number, gone: (error: Error) => void) {
    this.slots = Array.from({ length: slots }, (_, number) => newSlot(number))
    this.free = [...this.slots]
    this.gone = gone
  }

  /**
   * @param read called with what the block decodes to, which is good until it returns, or until what it returns is settled; that comes back.
   * @returns undefined when the block is better decoded by the caller: too small, too large, or there is no slot. @throws BAD_REQUEST, later as well.
   */
  decode<T>(block: Uint8Array, read: (decoded: Uint8Array) => T | Promise<T>): Promise<T> | undefined {
    const length = checkedLength(block)
    if (length < SMALLEST || length > LARGEST || block.length > LARGEST || this.over || this.slots.length === 0) return undefined
    if (!this.ready) return this.start()
    const slot = this.free.pop()
    if (slot === undefined) return undefined
    this.reserve(slot, block.length, length)
    slot.input.set(block)
    slot.size = block.length
    slot.length = length
    const result = new Promise<T>((resolve, reject) => {
      slot.done = (decoded) => {
        const result = read(decoded)
        resolve(result)
        return result
      }
      slot.failed = reject
    })
    this.post({ slot: slot.number, size: block.length, length })
    return result
  }

  async stop(): Promise<void> {
    this.over = true
    await this.worker?.terminate()
  }

  private start(): undefined {
    if (this.worker !== undefined) return
    const worker = new Worker(moduleUrl('./worker.ts', import.meta.url), { name: 'svc-snappy' })
    this.worker = worker
    worker.unref()
    worker.on('message', (message: FromSnappyWorker) => {
      if (message === 'ready') this.ready = true
      else this.finish(this.slots[message.slot], message.good)
    })
    worker.on('error', (error) => this.gone(error))
    worker.on('exit', () => {
      this.over = true
      for (const slot of this.slots) if (slot.done !== undefined) this.finish(slot, false)
    })
  }

  private post(message: ToSnappyWorker): void {
    this.worker?.postMessage(message)
  }

  private reserve(slot: Slot, size: number, length: number): void {
    if (slot.input.length >= size && slot.output.length >= length + SLACK) return
    const input = new SharedArrayBuffer(powerOfTwo(Math.max(size, slot.input.length)))
    const output = new SharedArrayBuffer(powerOfTwo(Math.max(length + SLACK, slot.output.length)))
    slot.input = new Uint8Array(input)
    slot.output = new Uint8Array(output)
    this.post({ slot: slot.number, input, output })
  }

  /** @param good whether it is decoded. */
  private finish(slot: Slot, good: boolean): void {
    const { input, output, size, length, done, failed } = slot
    slot.done = undefined
    const free = (): void => void this.free.push(slot)
    try {
      if (!good) fill(input.subarray(0, size), output, new DataView(output.buffer), length)
      const result = done?.(output.subarray(0, length))
      if (result instanceof Promise) result.then(free, free)
      else free()
    } catch (error) {
      failed(error)
      free()
    }
  }
}

function newSlot(number: number): Slot {
  const none = new Uint8Array(0)
  return { number, input: none, output: none, size: 0, length: 0, done: undefined, failed: () => {} }
}

const powerOfTwo = (n: number): number => 2 ** Math.ceil(Math.log2(n))
