/** Memory of a server by its own account (svc_memory_bytes) and by the system's. */
import { readFileSync } from 'node:fs'

export interface Account {
  consumers: Record<string, number>
  /** Bytes that the system says are resident. */
  resident: number
}

export async function accountOf({ url, pid }: { url: string; pid: number }): Promise<Account> {
  const text = await (await fetch(`${url}/metrics`)).text()
  const found = text.matchAll(/^svc_memory_bytes\{consumer="(\w+)"\} (\S+)$/gm)
  const consumers = Object.fromEntries([...found].map(([, consumer, bytes]) => [consumer, Number(bytes)]))
  const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024
  return { consumers, resident }
}
