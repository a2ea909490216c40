import type { SeriesChunk } from 'svcdb'
import { emptyHistogram, encodeHistogram, staleHistogram } from 'svcdb/lib/histogram'
import t from 'tap'
import { RowWriter } from './row-json.ts'

t.test('histograms are readable', async (t) => {
  const bytes = encodeHistogram({
    ...emptyHistogram(),
    schema: -53,
    count: 3,
    sum: 4.5,
    positiveSpans: [{ offset: 0, length: 2 }],
    positiveCounts: Float64Array.of(1, 2),
    customBounds: Float64Array.of(0.5),
  })
  const chunk: SeriesChunk = {
    series: 0,
    tags: { host: 'a' },
    times: BigInt64Array.of(1n, 2n, 3n, 4n),
    columns: [{ name: 'h', type: 'histogram', values: [bytes, bytes, Uint8Array.of(9), staleHistogram()], validity: Uint8Array.of(1, 0, 1, 1) }],
  }
  const writer = new RowWriter()
  t.same(
    [0, 1, 2, 3].map((row) => JSON.parse(writer.row(chunk, row)) as unknown),
    [
      {
        timestamp: 1,
        tags: { host: 'a' },
        fields: {
          h: {
            histogram: {
              count: 3,
              sum: 4.5,
              schema: -53,
              buckets: [
                [null, 0.5, 1],
                [0.5, null, 2],
              ],
            },
          },
        },
      },
      { timestamp: 2, tags: { host: 'a' }, fields: {} },
      { timestamp: 3, tags: { host: 'a' }, fields: { h: { histogram: 'CQ==' } } },
      { timestamp: 4, tags: { host: 'a' }, fields: { h: { histogram: null } } },
    ],
  )
})
