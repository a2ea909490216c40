/** The job that worker.test.ts runs in an engine thread. */
import type { Job } from 'svcdb'
import { SvcError } from 'svcdb/lib/errors'

export type TestJob =
  | { kind: 'count' }
  | { kind: 'emit'; chunks: number; bytes: number }
  | { kind: 'fail'; code?: 'INVALID_REQUEST' }
  | { kind: 'wait' }
  | { kind: 'endless' }

const job: Job<TestJob> = async (reader, args, { emit, signal }) => {
  switch (args.kind) {
    case 'count': {
      let rows = 0
      for await (const { times } of reader.scan({ namespace: 'default', measurement: 'm' })) rows += times.length
      return { rows, measurements: (await reader.measurements('default')).map(({ name }) => name) }
    }
    case 'emit':
      for (let i = 0; i < args.chunks; i++) await emit(new Uint8Array(args.bytes).fill(i))
      return args.chunks
    case 'fail':
      if (args.code === undefined) throw new TypeError('broken')
      throw new SvcError(args.code, 'cannot do it')
    case 'wait':
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return 'noticed'
    case 'endless':
      for (;;) for await (const _ of reader.scan({ namespace: 'default', measurement: 'm' })) void 0
  }
}

export default job
