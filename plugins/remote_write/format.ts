/** Remote write as a format of messages: a compressed WriteRequest of version 1, as an HTTP body has it. */
import type { PointFormat, PointMessage, PointReader, WriteBatch } from 'svcdb'
import type { SvcError } from 'svcdb/lib/errors'
import { NOTHING_WRITTEN, refusal, tallyOf } from './answer.ts'
import type { RequestDecoder } from './decoder.ts'
import type { Payloads } from './payload.ts'
import type { Requests } from './requests.ts'

/** Samples name their metrics and labels. */
export function remoteWriteFormat(requests: Requests, payloads: Payloads): PointFormat {
  return { defaults: false, nonFinite: true, reader: () => new RemoteWriteReader(requests, payloads) }
}

class RemoteWriteReader implements PointReader {
  private readonly requests: Requests
  private readonly payloads: Payloads
  private decoder: { namespace: string; decoder: RequestDecoder } | undefined

  constructor(requests: Requests, payloads: Payloads) {
    this.requests = requests
    this.payloads = payloads
  }

  read({ body }: PointMessage, batch: WriteBatch, further: (name: string) => WriteBatch): Promise<SvcError | undefined> {
    return this.payloads.read(Buffer.from(body.buffer, body.byteOffset, body.length), async (message) => {
      const { namespace } = batch
      if (this.decoder?.namespace !== namespace) this.decoder = { namespace, decoder: this.requests.newDecoder(namespace) }
      const histograms = () => further('histograms')
      const outcome = await this.requests.decode(this.decoder.decoder, { namespace, version: 1, message, floats: batch, histograms })
      await this.requests.keep(namespace, outcome)
      const written = [outcome.floatRows, outcome.histogramRows].map((rows) => ({ ...NOTHING_WRITTEN, written: rows }))
      return refusal(outcome, written[0], written[1], tallyOf(outcome, written[0], written[1]))
    })
  }
}
