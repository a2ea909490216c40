/** Topics of Sparkplug: `spBv1.0/<group>/<type>/<edge node>[/<device>]` (specification 3.0, 4.1). */

type MessageType = 'NBIRTH' | 'DBIRTH' | 'NDATA' | 'DDATA' | 'NDEATH' | 'DDEATH'

export interface SparkplugTopic {
  type: MessageType
  group: string
  node: string
  device: string | undefined
}

const NAMESPACE = 'spBv1.0'
/** With a device or without. */
const TYPES: Readonly<Record<string, boolean>> = { NBIRTH: false, NDATA: false, NDEATH: false, DBIRTH: true, DDATA: true, DDEATH: true }
/** Of others to others: commands, and the state of host applications. */
const IGNORED: ReadonlySet<string> = new Set(['NCMD', 'DCMD', 'STATE'])

/** Of a name in it; tags are seldom allowed to be longer, and names are kept. */
const MAX_LENGTH = 512

/** @returns 'ignored' for what has no points by its type; undefined for what is no topic of Sparkplug. */
export function readTopic(topic: string): SparkplugTopic | 'ignored' | undefined {
  const [namespace, group, type, node, device, ...more] = topic.split('/')
  if (namespace !== NAMESPACE) return undefined
  if (group === 'STATE' || IGNORED.has(type)) return 'ignored'
  const ofDevice = Object.hasOwn(TYPES, type ?? '') ? TYPES[type] : undefined
  if (ofDevice === undefined || !group || !node || more.length > 0 || (device !== undefined) !== ofDevice || device === '') return undefined
  if (group.length > MAX_LENGTH || node.length > MAX_LENGTH || (device?.length ?? 0) > MAX_LENGTH) return undefined
  return { type: type as MessageType, group, node, device }
}

export const commandTopic = (group: string, node: string): string => `${NAMESPACE}/${group}/NCMD/${node}`
