import t from 'tap'
import { countShortLived } from './short-lived.ts'

const MIB = 1 << 20
const CHUNK = 64 << 10

/** Most that buffers took meanwhile, beyond what there was. */
function mostWhile(total: number, each: (buffer: Buffer) => void): number {
  const { arrayBuffers } = process.memoryUsage()
  let most = 0
  for (let i = 0; i < total / CHUNK; i++) {
    each(Buffer.allocUnsafeSlow(CHUNK))
    if (i % 16 === 0) most = Math.max(most, process.memoryUsage().arrayBuffers - arrayBuffers)
  }
  return most
}

t.test('buffers that are not kept do not pile up', async (t) => {
  const counted = mostWhile(512 * MIB, ({ length }) => countShortLived(length))
  t.ok(counted < 48 * MIB, `${Math.round(counted / MIB)} MiB`)
})
