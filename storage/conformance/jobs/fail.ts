/** Fails as it is told: with a code from the error table, with an error of its own, or never ends. */
import type { Job } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

const job: Job<'code' | 'error' | 'hang', never> = async (_reader, how, io) => {
  await io.emit(Buffer.from('begun'))
  if (how === 'code') throw new SvcError('PROMQL_ERROR', 'cannot read query "x": for the test', { detail: { position: 3 } })
  if (how === 'error') throw new TypeError('a fault of the job')
  return new Promise<never>(() => {})
}

export default job
