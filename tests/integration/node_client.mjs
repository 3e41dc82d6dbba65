// Runs cells in Node with @jupyterlab/services, as VS Code does with a Jupyter server.
//
//     node node_client.mjs URL TOKEN KERNELSPEC
//
// Its last line is JSON: what each of several things that a user does came to.
import { KernelManager, ServerConnection } from '@jupyterlab/services';

const [baseUrl, token, name] = process.argv.slice(2);
const serverSettings = ServerConnection.makeSettings({
  baseUrl,
  wsUrl: baseUrl.replace('http', 'ws'),
  token,
  appendToken: true
});
const manager = new KernelManager({ serverSettings });
const kernel = await manager.startNew({ name });
const told = {};

function text(message) {
  return message.header.msg_type === 'stream' ? message.content.text : '';
}

async function run(code, { until, then } = {}) {
  const future = kernel.requestExecute({ code, allow_stdin: true });
  let printed = '';
  let due = until;
  future.onIOPub = message => {
    printed += text(message);
    if (due && printed.includes(due)) {
      due = undefined;
      then();
    }
  };
  future.onStdin = message => {
    kernel.sendInputReply({ status: 'ok', value: 'Ada' }, message.header);
  };
  const reply = await future.done;
  return [reply.content.status, reply.content.ename ?? '', printed];
}

const info = await kernel.info;
told.language = info.language_info.name;
told.print = await run('print(6 * 7)');
told.input = await run("print('hello', input('who? '))");
told.lines = (await run('for i in range(20000): print(i)'))[2].split('\n').length - 1;
told.interrupted = await run('import time\nwhile True: print("x"); time.sleep(0.01)', {
  until: 'x',
  then: () => kernel.interrupt()
});
const completed = await kernel.requestComplete({ code: 'impor', cursor_pos: 5 });
told.completed = completed.content.matches.includes('import');

let state;
kernel.registerCommTarget('greeting', (comm, message) => {
  state = message.content.data;
  comm.send({ heard: state.said });
});
await run(
  "from comm import create_comm\nc = create_comm(target_name='greeting', data={'said': 'hi'})\n" +
    "c.on_msg(lambda m: globals().update(heard=m['content']['data']['heard']))"
);
// The kernel handles the comm's message before the next request.
told.comm = [state, (await run('print(heard)'))[2]];

await run('kept = 1');
await kernel.restart();
told.restarted = await run('print(kept)');
await kernel.shutdown();
told.left = (await fetch(`${baseUrl}/api/kernels`, {
  headers: { Authorization: `token ${token}` }
}).then(answer => answer.json())).length;
console.log(JSON.stringify(told));
process.exit(0);
