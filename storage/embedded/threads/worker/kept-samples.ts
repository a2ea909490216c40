/** The samples that an engine thread keeps between questions: what they take, when they are let go, and when the garbage that they and questions leave is collected. */
import { getHeapStatistics } from 'node:v8'
import { collect } from 'svcdb/lib/heap'
import type { SampleBlocks } from '../../read/samples/source-blocks.ts'
import type { FromWorker } from '../messages.ts'

/** How often samples are looked at that nobody asks for. */
const REST_MS = 10_000
/** Less is not worth a collection. */
const COLLECTED_BYTES = 32 << 20
/** Garbage of questions that is worth one: 20 ms. */
const LEFT_BYTES = 24 << 20
/** Without a question, before their garbage is looked at. */
const IDLE_MS = 30

export class KeptSamples {
  private readonly blocks: SampleBlocks
  private readonly post: (message: FromWorker) => void
  private reported = { bytes: 0, fileBytes: 0 }
  private reportedUnread = 0
  /** Bytes of samples that were let go since the last collection for them. */
  private letGo = 0
  private leastOthers = Number.POSITIVE_INFINITY
  private idleTimer: NodeJS.Timeout | undefined

  constructor(blocks: SampleBlocks, post: (message: FromWorker) => void) {
    this.blocks = blocks
    this.post = post
    setInterval(() => this.rest(), REST_MS).unref()
  }

  /** Reports how much the sample blocks take, and segments they could not be read from, when that has changed. */
  report(): void {
    const { bytes, fileBytes, refusedSegments } = this.blocks
    if (bytes !== this.reported.bytes || fileBytes !== this.reported.fileBytes) {
      this.reported = { bytes, fileBytes }
      this.post({ kind: 'samples-kept', ...this.reported })
    }
    if (refusedSegments !== this.reportedUnread) this.post({ kind: 'unread-pages', segments: refusedSegments - this.reportedUnread })
    this.reportedUnread = refusedSegments
  }

  /** A question is asked. */
  asked(): void {
    clearTimeout(this.idleTimer)
  }

  /** No question is left. */
  idle(): void {
    clearTimeout(this.idleTimer)
    this.idleTimer = setTimeout(() => this.collectLeft(), IDLE_MS).unref()
  }

  /** Lets samples go that nobody asks for any more. */
  private rest(): void {
    this.letGo += this.blocks.rest()
    this.report()
    // V8 counts what it allocates: without questions it would have no reason to collect.
    if (this.letGo < COLLECTED_BYTES) return
    this.letGo = 0
    collect()
  }

  /** Collects what questions have left once none is asked for a moment: V8 lets 64 MiB of buffers come first, and what they take of the allocator is seldom given back. */
  private collectLeft(): void {
    this.leastOthers = Math.min(this.leastOthers, this.othersBytes())
    if (this.othersBytes() - this.leastOthers < LEFT_BYTES) return
    collect()
    this.leastOthers = this.othersBytes()
  }

  /** Buffers beside the samples that are kept, of which more than a few MiB are garbage. */
  private othersBytes(): number {
    return getHeapStatistics().external_memory - this.blocks.bytes
  }
}
