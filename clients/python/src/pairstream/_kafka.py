"""The names of confluent-kafka, which speaks to brokers and which plans and conversions do without."""

from .errors import SettingError

try:
    from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
    from confluent_kafka.admin import AdminClient
except ImportError as err:
    raise SettingError(f"speaking to brokers takes confluent-kafka: pip install 'confluent-kafka>=2.5.3,<3' ({err})") from err

__all__ = ["AdminClient", "Consumer", "KafkaError", "KafkaException", "Message", "Producer", "TopicCollection", "TopicPartition"]
