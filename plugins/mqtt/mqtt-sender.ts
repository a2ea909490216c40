/** For the bench: publishes points as fast as a broker takes them. `port messages qos series start measurements` */
import { connectAsync } from 'mqtt'

const [port, messages, qos, series] = process.argv.slice(2, 6).map(Number)
const measurements = Number(process.argv[7] ?? 1)
const start = BigInt(process.argv[6])
const client = await connectAsync({ host: '127.0.0.1', port, protocolVersion: 5, properties: { receiveMaximum: 65_535 } })
const WINDOW = 2000
let free = WINDOW
let wake: (() => void) | undefined
for (let i = 0; i < messages; i++) {
  if (free === 0) {
    await new Promise<void>((resolve) => {
      wake = resolve
    })
  }
  free--
  client.publish(
    `bench/${i % 50}`,
    `cpu${measurements > 1 ? i % measurements : ''},host=h${i % series} usage=${i % 100} ${start + BigInt(i)}`,
    { qos: qos as 0 },
    () => {
      free++
      wake?.()
      wake = undefined
    },
  )
}
await client.endAsync()
