/** The client library: mqtt, with its packets from mqtt-packet. It is loaded with the first connection. */
import { createRequire } from 'node:module'

interface Packets {
  writeToStream: { cacheNumbers: boolean }
}

export function load(): typeof import('mqtt') {
  const require = createRequire(import.meta.url)
  const packets: Packets = createRequire(require.resolve('mqtt'))('mqtt-packet')
  // It would keep a buffer for each number of 16 bits, 9 MiB, to save the making of one for each packet.
  packets.writeToStream.cacheNumbers = false
  return require('mqtt')
}
