import { auditPlugin } from './wiring.ts'

export default auditPlugin()
