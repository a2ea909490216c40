/** Queries of the kinds that dashboards send, so that their code is compiled before somebody waits for it. */
import { moduleUrl } from 'svcdb/lib/modules'
import { WARM_UP_ROWS, type WarmUp } from 'svcdb/lib/warm-up'
import type { QueryArgs } from './query-job.ts'

const { namespace, measurement, hosts, start, end } = WARM_UP_ROWS
const NS_PER_SECOND = 1_000_000_000n
const MAX_ROWS = 100_000
const MAX_BYTES = 1 << 24

export const nativeWarmUp: WarmUp = {
  module: moduleUrl('./query-job.ts', import.meta.url),
  args(round) {
    const range = { start: BigInt(start + round) * NS_PER_SECOND, end: BigInt(end) * NS_PER_SECOND }
    const one = [{ tag: 'host', op: '=' as const, value: `h${round % hosts}` }]
    const args: QueryArgs[] = [
      {
        request: { namespace, measurement, matchers: one, fields: ['load'], ...range },
        offset: 0,
        maxRows: MAX_ROWS,
        maxBytes: MAX_BYTES,
        maxHeldBytes: MAX_BYTES,
        limit: 100,
      },
      { request: { namespace, measurement, matchers: one, ...range }, offset: round % 10, maxRows: MAX_ROWS, maxBytes: MAX_BYTES, maxHeldBytes: MAX_BYTES },
    ]
    return args
  },
}
