/** For tests: a server process that hands deliveries over until it is killed. Arguments: data directory, authorities' file, URL, number of the first event. */
import { setTimeout as wait } from 'node:timers/promises'
import { at, delivery, openNode } from './testing.ts'

const [dataDir, caFile, url, first] = process.argv.slice(2)
const { hooks } = await openNode(dataDir, { ca_file: caFile })
await hooks.define(at('a'), url)
process.stdout.write('open\n')
for (let number = Number(first); ; number += 3) {
  const ids = [number, number + 1, number + 2].map(String)
  const answers = await hooks.enqueue(ids.map((id) => delivery('a', id)))
  if (answers.includes('unrouted') || answers.includes('too_large')) throw new Error(answers.join())
  process.stdout.write(ids.map((id) => `${id}\n`).join(''))
  await wait(2)
}
