/** Everything that one namespace's requests share: what was seen before, and the parts that read a request. */
import type { SeriesResolver } from 'svcdb'
import type { WriteBatch } from 'svcdb/lib/columns'
import { OneByOne, type Work } from 'svcdb/lib/event-loop'
import { ProtobufReader } from 'svcdb/lib/protobuf'
import type { SlotMemory } from 'svcdb/lib/snappy'
import type { Version } from './content.ts'
import { HistogramMessage } from './histogram-message.ts'
import { LabelSet } from './label-set.ts'
import type { NoteMetadata } from './metadata.ts'
import type { DecodeOptions, Outcome } from './outcome.ts'
import { FIELDS_V1, RequestV1 } from './request-v1.ts'
import { FIELDS_V2, RequestV2 } from './request-v2.ts'
import { SampleWriter } from './sample-writer.ts'
import { SeriesBody } from './series-body.ts'
import { SeriesCache } from './series-cache.ts'
import { Symbols } from './symbols.ts'

interface DecoderOptions {
  /** Bytes of label sets kept, for each version. */
  maxCacheBytes: number
  maxBuckets: number
  /** Where large messages lie, once there is such a memory. */
  memory?: (() => SlotMemory | undefined) | undefined
  /** Any number, best a random one: seeds the hash of label sets. */
  seed: number
}

export class RequestDecoder {
  readonly turns = new OneByOne()
  private readonly reader = new ProtobufReader()
  private readonly writer = new SampleWriter()
  private readonly memory: DecoderOptions['memory']
  private readonly v1: RequestV1
  private readonly v2: RequestV2

  constructor(resolver: SeriesResolver, namespace: string, { maxCacheBytes, maxBuckets, memory, seed }: DecoderOptions) {
    const { reader, writer } = this
    this.memory = memory
    const labels = new LabelSet()
    const message = new HistogramMessage(maxBuckets)
    const cache = () => new SeriesCache(resolver, namespace, maxCacheBytes, seed)
    this.v1 = new RequestV1(reader, cache(), labels, new SeriesBody(reader, writer, message, FIELDS_V1), writer)
    const symbols = new Symbols(maxCacheBytes, seed)
    this.v2 = new RequestV2(reader, cache(), labels, new SeriesBody(reader, writer, message, FIELDS_V2), writer, symbols)
  }

  /**
   * Appends what a request holds to batches, in turns; until it is done the decoder does nothing else (`turns`). @param histograms called when there is the first histogram; @param note for the metadata of each metric.
   * @throws BAD_REQUEST when the bytes are not the message, or it holds more than is allowed: then nothing of it should be written.
   */
  *decode(version: Version, message: Uint8Array, floats: WriteBatch, histograms: () => WriteBatch, note: NoteMetadata, options: DecodeOptions): Work<Outcome> {
    const write = this.writer.begin(floats, histograms, options)
    try {
      if (version === 1) yield* this.v1.read(message, note, this.memory?.())
      else yield* this.v2.read(message, note, write)
      return this.writer.outcome
    } finally {
      this.reader.release() // the request may be large and is not ours
    }
  }
}
