//! A real RabbitMQ on ports and folders of its own, and a client that says exactly what a test wants to be said.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use futures_util::StreamExt;
use lapin::options::{
    BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, ExchangeKind};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::tools::{free_port, needed_for};
use super::wait;

const SERVER: &str = "/usr/lib/rabbitmq/bin/rabbitmq-server";
/// A user with a password that can be looked for.
const CONFIG: &str = "disk_free_limit.absolute = 1MB\ndefault_user = me\ndefault_pass = an-open-sesame\n";
/// The password.
pub const PASSWORD: &str = "an-open-sesame";
const CONTROL: &str = "/usr/lib/rabbitmq/bin/rabbitmqctl";
/// Ends what it starts when the test ends, however that ends: then its standard input is closed.
const GUARD: &str =
    r#"exec 3<&0; "$@" </dev/null >&2 3<&- & echo $!; read x <&3; kill -9 $! 2>/dev/null; wait"#;

/// A program that ends with the test.
struct Guarded {
    guard: Child,
    pid: String,
}

impl Guarded {
    fn start(program: &[&str], env: &[(String, String)], log: &Path) -> Self {
        let log = std::fs::File::create(log).expect("a log");
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "sh"])
            .args(program)
            .envs(env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("a shell");
        let mut pid = String::new();
        BufReader::new(guard.stdout.take().expect("piped")).read_line(&mut pid).expect("it tells a number");
        Self { guard, pid: pid.trim().to_owned() }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.pid]).status();
        assert!(sent.expect("kill is everywhere").success());
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// A broker. What it keeps outlives its process.
pub struct Broker {
    folder: tempfile::TempDir,
    port: u16,
    env: Vec<(String, String)>,
    process: Option<Guarded>,
    _names: Guarded,
}

impl Broker {
    /// Starts one, and waits until it listens.
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// The same with further settings.
    pub fn start_with(settings: &str) -> Self {
        needed_for(&format!("test -x {SERVER} && command -v epmd"), "rabbitmq-server");
        let folder = tempfile::tempdir().expect("a folder");
        let (port, names, dist) = (free_port(), free_port(), free_port());
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(folder.path().join("plugins"), "[].\n").expect("written");
        std::fs::write(folder.path().join("rabbitmq.conf"), format!("{CONFIG}{settings}")).expect("written");
        let env = [
            ("HOME", folder.path().display().to_string()),
            ("ERL_EPMD_PORT", names.to_string()),
            ("ERL_EPMD_ADDRESS", "127.0.0.1".to_owned()),
            // The script then becomes the broker instead of waiting for it.
            ("RUNNING_UNDER_SYSTEMD", "true".to_owned()),
            ("RABBITMQ_NODENAME", "bus@localhost".to_owned()),
            ("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1".to_owned()),
            ("RABBITMQ_NODE_PORT", port.to_string()),
            ("RABBITMQ_DIST_PORT", dist.to_string()),
            ("RABBITMQ_MNESIA_BASE", path("mnesia")),
            ("RABBITMQ_LOG_BASE", path("log")),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", path("plugins")),
            ("RABBITMQ_CONFIG_FILE", path("rabbitmq.conf")),
            ("RABBITMQ_CONF_ENV_FILE", path("no-such-file")),
            ("RABBITMQ_PID_FILE", path("pid")),
            // One that is killed may leave what it remembers, and would leave it in the tree.
            ("ERL_CRASH_DUMP", path("crash.dump")),
            (
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none".to_owned(),
            ),
        ];
        let env: Vec<(String, String)> =
            env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let epmd =
            Guarded::start(&["epmd", "-port", &names.to_string()], &env, &folder.path().join("epmd.log"));
        let mut broker = Self { folder, port, env, process: None, _names: epmd };
        broker.begin();
        broker
    }

    /// Starts it again, with what it kept.
    pub fn begin(&mut self) {
        assert!(self.process.is_none(), "it runs");
        self.process = Some(Guarded::start(&[SERVER], &self.env, &self.folder.path().join("start.log")));
        wait::until("the broker listens", || {
            let ended = !self.is_alive();
            let log = || std::fs::read_to_string(self.folder.path().join("start.log")).unwrap_or_default();
            assert!(!ended, "the broker ended: {}", log());
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Has it stop, and waits for its end.
    pub fn stop(&mut self) {
        self.process.as_ref().expect("it runs").signal("TERM");
        self.ended();
    }

    /// Kills it at once, as a power failure would.
    pub fn kill(&mut self) {
        self.process.as_ref().expect("it runs").signal("KILL");
        self.ended();
    }

    fn ended(&mut self) {
        wait::until("the broker ends", || !self.is_alive());
        self.process = None;
    }

    fn is_alive(&self) -> bool {
        let pid = &self.process.as_ref().expect("it was started").pid;
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Has its administrator say something.
    pub fn control(&self, args: &[&str]) -> String {
        let ran = Command::new(CONTROL)
            .args(["-n", "bus@localhost"])
            .args(args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        let told = [ran.stdout, ran.stderr].concat();
        assert!(ran.status.success(), "{args:?}: {}", String::from_utf8_lossy(&told));
        String::from_utf8_lossy(&told).into_owned()
    }

    /// Raises or ends the alarm of memory.
    pub fn alarm(&self, on: bool) {
        self.control(&["set_vm_memory_high_watermark", if on { "0.0000001" } else { "0.8" }]);
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("amqp://me:{PASSWORD}@127.0.0.1:{}", self.port)
    }

    /// Somebody who speaks to it.
    pub fn client(&self) -> Client {
        Client::to(&self.url())
    }
}

/// A message as it came.
#[derive(Debug, Clone)]
pub struct Message {
    /// Its name.
    pub id: String,
    /// What it was published with.
    pub routing_key: String,
    /// Its properties.
    pub properties: BasicProperties,
    /// Its body.
    pub body: Vec<u8>,
}

impl Message {
    /// Its body as one JSON document.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// Somebody who speaks to a broker.
pub struct Client {
    runtime: Runtime,
    channel: Channel,
    connection: Connection,
}

impl Client {
    fn to(url: &str) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (connection, channel) = runtime.block_on(async {
            let connection =
                Connection::connect(url, ConnectionProperties::default()).await.expect("connected");
            let channel = connection.create_channel().await.expect("a channel");
            channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
            (connection, channel)
        });
        Self { runtime, channel, connection }
    }

    /// Declares the exchange of facts as it is promised to be.
    pub fn declare_exchange(&self) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = self.channel.exchange_declare(
            "redrive.events".into(),
            ExchangeKind::Topic,
            options,
            FieldTable::default(),
        );
        self.runtime.block_on(declared).expect("topic and durable");
    }

    /// Declares the exchange of facts as nobody can use it.
    pub fn declare_another_exchange(&self) {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declared = self.channel.exchange_declare(
            "redrive.events".into(),
            ExchangeKind::Fanout,
            options,
            FieldTable::default(),
        );
        self.runtime.block_on(declared).expect("fanout");
    }

    /// Declares a durable queue for facts of these names.
    pub fn bind(&self, queue: &str, patterns: &[&str], arguments: &[(&str, AMQPValue)]) {
        self.declare_exchange();
        let mut table = FieldTable::default();
        for (name, value) in arguments {
            table.insert((*name).into(), value.clone());
        }
        self.runtime.block_on(async {
            let declared = self.channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), table);
            declared.await.expect("a queue");
            for pattern in patterns {
                let options = QueueBindOptions::default();
                let exchange = "redrive.events".into();
                let bound = self.channel.queue_bind(
                    queue.into(),
                    exchange,
                    (*pattern).into(),
                    options,
                    FieldTable::default(),
                );
                bound.await.expect("bound");
            }
        });
    }

    /// Removes a queue with what is in it.
    pub fn delete(&self, queue: &str) {
        let deleted = self.channel.queue_delete(queue.into(), QueueDeleteOptions::default());
        self.runtime.block_on(deleted).expect("deleted");
    }

    /// Declares a durable queue.
    pub fn declare(&self, queue: &str) {
        let declared =
            self.channel.queue_declare(queue.into(), QueueDeclareOptions::durable(), FieldTable::default());
        self.runtime.block_on(declared).expect("a queue");
    }

    /// Whether there is such a queue.
    pub fn has(&self, queue: &str) -> bool {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        self.runtime.block_on(async {
            // The broker closes the channel where there is none.
            let channel = self.connection.create_channel().await.expect("a channel");
            channel.queue_declare(queue.into(), options, FieldTable::default()).await.is_ok()
        })
    }

    /// How many messages a queue has, which has to be there.
    pub fn count(&self, queue: &str) -> u32 {
        let options = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let declared = self.channel.queue_declare(queue.into(), options, FieldTable::default());
        self.runtime.block_on(declared).expect("a queue").message_count()
    }

    /// Puts messages into a queue, which has to be there.
    pub fn put(&self, queue: &str, bodies: &[&str], headers: &[(&str, &str)]) {
        let mut table = FieldTable::default();
        for (name, value) in headers {
            table.insert((*name).into(), AMQPValue::LongString((*value).into()));
        }
        self.runtime.block_on(async {
            for body in bodies {
                let properties = BasicProperties::default().with_delivery_mode(2).with_headers(table.clone());
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let put =
                    self.channel.basic_publish("".into(), queue.into(), options, body.as_bytes(), properties);
                let confirm = put.await.expect("published").await.expect("confirmed");
                assert!(confirm.is_ack() && confirm.take_message().is_none(), "{queue} is there");
            }
        });
    }

    /// Puts messages into a queue as they came before, as a broker does that delivers twice.
    pub fn put_again(&self, queue: &str, messages: &[Message]) {
        self.runtime.block_on(async {
            for Message { properties, body, .. } in messages {
                let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
                let put =
                    self.channel.basic_publish("".into(), queue.into(), options, body, properties.clone());
                let confirm = put.await.expect("published").await.expect("confirmed");
                assert!(confirm.is_ack() && confirm.take_message().is_none(), "{queue} is there");
            }
        });
    }

    /// Takes so many messages out of a queue, in their order.
    pub fn take(&self, queue: &str, messages: usize) -> Vec<Message> {
        let taking = async {
            let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
            let consumer =
                self.channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
            let came: Vec<_> = consumer.await.expect("a consumer").take(messages).collect().await;
            came
        };
        let came = self.runtime.block_on(taking);
        let message = |delivery: lapin::Result<lapin::message::Delivery>| {
            let delivery = delivery.expect("delivered");
            Message {
                id: delivery.properties.message_id().as_ref().map(ToString::to_string).unwrap_or_default(),
                routing_key: delivery.routing_key.to_string(),
                properties: delivery.properties,
                body: delivery.data,
            }
        };
        came.into_iter().map(message).collect()
    }

    /// Takes everything out of a queue.
    pub fn drain(&self, queue: &str) -> Vec<Message> {
        let messages = self.count(queue);
        self.take(queue, messages as usize)
    }
}
