/** Blocks of a remote write body, decoded by the library, into memory that is used again, and by a thread: node kernel/lib/snappy/block.bench.ts [blocks] */
import { compressSync, uncompress } from 'snappy'
import { SnappyBlockDecoder } from './block.ts'
import { SnappyThread } from './thread.ts'

const blocks = Number(process.argv[2] ?? 500)
const lines = Array.from({ length: 5000 }, (_, i) => {
  const host = Math.floor(i / 10)
  return `cpu_usage_${i % 10},arch=x64,datacenter=eu-west-1${'abc'[host % 3]},hostname=host_${host},os=Ubuntu16.04LTS,rack=${host % 100},region=eu-west-1,service=${host % 20},team=SF ${(i * 7919) % 100} ${1_700_000_000_000 + i}\n`
})
const bytes = Buffer.from(lines.join(''))
const block = compressSync(bytes)
const decoder = new SnappyBlockDecoder()

async function measure(name: string, decode: () => unknown): Promise<void> {
  for (let i = 0; i < 20; i++) await decode()
  const before = process.cpuUsage()
  const mainBefore = process.threadCpuUsage()
  for (let i = 0; i < blocks; i++) await decode()
  const { user, system } = process.cpuUsage(before)
  const main = process.threadCpuUsage(mainBefore)
  const seconds = (user + system) / 1e6
  console.log(
    `${name.padEnd(28)} ${((seconds / blocks) * 1000).toFixed(2)} ms of processor time a block, ${((main.user + main.system) / 1000 / blocks).toFixed(2)} ms of it on the main thread, ${((bytes.length * blocks) / seconds / 1e6).toFixed(0)} MB/s, ${Math.round(process.memoryUsage.rss() / 1e6)} MB resident`,
  )
}

console.log(`${block.length} bytes to ${bytes.length}`)
await measure('memory that is used again', () => decoder.decode(block))
const thread = new SnappyThread(4, (error) => console.error(error))
while (thread.decode(block, () => 0) === undefined) await new Promise((resolve) => setTimeout(resolve, 10))
await measure('a thread, shared memory', () => thread.decode(block, () => 0))
await thread.stop()
await measure('the library, thread pool', () => uncompress(block))
