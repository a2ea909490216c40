/** A plugin for these tests: the next writes fail with a code, by the way that a real failure takes. */

import { definePlugin } from '../../kernel/index.ts'
import { type ErrorCode, SvcError } from '../../kernel/lib/errors/index.ts'

export default definePlugin({
  id: 'faults',
  summary: 'Lets writes fail on request',
  stability: 'experimental',
  capabilities: ['points'],
  setup(svc) {
    let left = 0
    let code: ErrorCode = 'BACKPRESSURE'
    let met = 0
    svc.ingest.admit(() => {
      if (left === 0) return
      left--
      met++
      throw new SvcError(code, `cannot write: ${code} was asked for`)
    })
    svc.http.put('/faults', async (request) => {
      ;({ code, left } = request.body as { code: ErrorCode; left: number })
      met = 0
      return {}
    })
    svc.http.get('/faults', async () => ({ left, met }))
  },
})
