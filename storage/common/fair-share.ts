/** Of memory that namespaces share: alone one has three quarters of it; where several have taken what they may, as much is left as a third of what each has. */
const OF_FREE = 3

/** Whether a namespace has so much that others would be left without. Without a name it is the only one. */
export const leavesTooLittle = (namespace: string, own: number, free: number): boolean => namespace !== '' && own > OF_FREE * free
